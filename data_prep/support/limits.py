"""What programs agree on, for text that is none."""

LONGEST_WORD = 1_000_000
"""Characters; what has no blank for longer than this is no text."""
