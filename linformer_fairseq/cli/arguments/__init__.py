"""The options of each `linformer` command; the docstring of each function is the command's description.

These modules import neither torch nor fairseq, so that `--help` is fast.
"""

from __future__ import annotations

import argparse


def seed(text: str) -> int:
    """The type of --seed: a whole number for Python's, numpy's and torch's generators.

    Raises:
        ArgumentTypeError: it is negative, or too large for them.
    """
    if not text.strip().isdecimal() or (value := int(text)) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number from 0 to {2**32 - 1}")
    return value


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare --device, for `cli.devices`."""
    parser.add_argument("--device", help="cpu, cuda or cuda:N (default: a GPU if there is one, otherwise the CPU)")
