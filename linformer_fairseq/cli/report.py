"""`linformer report`: one HTML page on all results."""

from __future__ import annotations

import argparse

from benchmarks.measuring import ROOT
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.report.build import page


def run(arguments: argparse.Namespace) -> int:
    """Write the page; returns the exit status."""
    results = arguments.results or ROOT / "results"
    if not results.is_dir():
        hint = "" if arguments.results else "; name a folder of results with --results DIR"
        raise UserError(f"{results}: no such folder{hint}")
    write_file(arguments.out, page(results))
    print(arguments.out)
    return 0
