"""`linformer user-dir`: prints the folder of the plugin, for fairseq's --user-dir."""

from __future__ import annotations

import argparse
from pathlib import Path

import linformer_fairseq


def run(arguments: argparse.Namespace) -> int:
    """Print the folder and return the exit status."""
    print(Path(linformer_fairseq.__file__).parent)
    return 0
