"""The parts of building a corpus: cleaning, duplicates, splits, and the text files that come out."""
