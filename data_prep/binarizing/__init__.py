"""Converts text files to fairseq's memory-mapped datasets: cuts them into parts, encodes the parts and joins them."""
