"""Measure time and memory as the paper does: inference (Table 3, Figure 2, short inputs), training, reports.

The programs are in `benchmarks/` of a clone of the repository; `linformer benchmark PROGRAM --help` describes one.
Relative paths are relative to where you stand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from linformer_fairseq.cli.command import CommandError

CLONE = Path(__file__).resolve().parents[2]
"""Where this package lies, if it lies in a clone."""
PROGRAMS = (
    "inference",
    "training",
    "ablation",
    "profile",
    "optimizer",
    "padding",
    "selfcheck",
    "report",
    "readme",
)
"""As in benchmarks/__main__.py."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All options are the program's."""
    parser.add_argument("program", choices=PROGRAMS, help="what to do")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the program")


def run(arguments: argparse.Namespace) -> int:
    """Run the program as a child process and return its exit status.

    Raises:
        CommandError: this package was installed without the rest of the repository.
    """
    program = CLONE / "benchmarks" / "__main__.py"
    if not program.is_file():
        raise CommandError(
            f"the benchmarks are programs of the repository, and {program} is not there; clone the repository and "
            "install it from there (scripts/setup.sh)"
        )
    return subprocess.run([sys.executable, program, arguments.program, *arguments.options], check=False).returncode
