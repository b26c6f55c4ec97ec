"""What to do with a text that is too long, for the command line, which imports nothing else of this."""

WINDOWS = "windows"
CUTS = ("head", "tail", "head+tail", WINDOWS)
"""Keep its beginning, its end, or both (see `cutting.cut`), or divide it into windows (`cutting.windows`)."""
