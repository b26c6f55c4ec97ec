"""The values of options, for the command line, which imports nothing else of this."""

from __future__ import annotations

TOKENS = "tokens"
POOLINGS = ("mean", "first", "max", TOKENS)
"""How the vectors of tokens become that of a text; ``tokens``: not at all."""

FORMATS = ("lines", "tsv", "jsonl", "parquet")
"""Formats of input files."""
EXTENSIONS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
"""The format of a file by the end of its name; other files are lines."""

BATCH_TOKENS = 8192
"""Default number of tokens of a batch, with padding."""
