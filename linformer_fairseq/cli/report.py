"""`linformer report`: one HTML page on all results."""

from __future__ import annotations

import argparse
import sys

from benchmarks.measuring import ROOT
from linformer_fairseq.files.atomic import replace_page
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.report.build import page
from linformer_fairseq.report.page import MARK


def run(arguments: argparse.Namespace) -> int:
    """Write the page; returns the exit status."""
    results = arguments.results or ROOT / "results"
    if not results.is_dir():
        if arguments.results is None:
            raise UserError("there is no clone here, whose results/ is the default; name a folder with --results")
        raise UserError(f"{results}: no such folder")
    replace_page(arguments.out, page(results), MARK)
    print(f"the page shows {results}", file=sys.stderr)
    print(arguments.out)
    return 0
