"""Data preparation: from text to what ``fairseq-train`` reads.

One program per step (``python -m data_prep.NAME --help``), each importable too. Nothing in
``linformer_fairseq`` imports this package.
"""
