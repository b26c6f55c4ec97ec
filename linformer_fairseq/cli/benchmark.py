"""`linformer benchmark`: runs the programs of `benchmarks`."""

from __future__ import annotations

import argparse

from benchmarks.__main__ import main


def run(arguments: argparse.Namespace) -> int:
    """Run the program and return its exit status."""
    return main([arguments.program, *arguments.options], prog="linformer benchmark")
