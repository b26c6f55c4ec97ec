"""The parts of `build_corpus`: cleaning, duplicates, splits, and writing the text files."""
