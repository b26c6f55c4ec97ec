"""Data preparation: converts text to the data folders that ``fairseq-train`` reads.

There is one program per step (``linformer data NAME --help``), which can also be imported. In ``linformer_fairseq``,
only the command line imports this package.
"""
