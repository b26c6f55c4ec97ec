"""Writes fairseq's memory-mapped datasets from text files: cuts them into parts, encodes and joins these."""
