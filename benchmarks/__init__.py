"""Measurements beside other implementations; see each file's first lines for how to run it."""
