"""The options of each `linformer` command; the docstring of each function is the command's description.

These modules import neither torch nor fairseq, so that `--help` is fast.
"""

from __future__ import annotations

import argparse


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare --device, for `cli.devices`."""
    parser.add_argument("--device", help="cpu, cuda or cuda:N (default: a GPU if there is one, otherwise the CPU)")
