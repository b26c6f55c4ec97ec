"""The English text in Python's standard library, which the quickstart uses because it needs no download."""
