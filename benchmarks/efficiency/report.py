"""Tables and plots of what was measured, from the JSON files alone.

    python -m benchmarks report --results results/efficiency --out results/efficiency

README.md has a part for each file; plots need matplotlib and are left out without it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from benchmarks.efficiency import tables
from benchmarks.efficiency.errors import BenchmarkError
from benchmarks.efficiency.inference import RESULTS
from benchmarks.efficiency.store import read, write_whole
from benchmarks.efficiency.tables import STORED, Result, cells_of, ours_of

TITLES = {
    "table3": "Table 3 of the paper",
    "figure2": "Figure 2 of the paper, and other Linformers",
    "long": "One forward pass over 1,048,576 tokens",
    None: "Inference",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of JSON files (results/efficiency)")
    parser.add_argument("--out", type=Path, help="folder for README.md and plots (that of --results)")


def run(args: argparse.Namespace) -> int:
    """Write the report; returns the exit status.

    Raises:
        BenchmarkError: no results, or a folder that cannot be written.
    """
    out = args.out or args.results
    files = sorted(args.results.glob("*.json")) if args.results.is_dir() else []
    if not files:
        raise BenchmarkError(f"{args.results} has no JSON files; `python -m benchmarks inference` makes some")
    draws = importlib.util.find_spec("matplotlib") is not None
    if not draws:
        print("without plots: matplotlib is not installed", file=sys.stderr)
    where = "beside it" if out.resolve() == args.results.resolve() else f"in {args.results}"
    lines = ["# Efficiency", "", f"Made by `python -m benchmarks report` from the JSON files {where}.", ""]
    for path in files:
        lines += [*part(path.stem, read(path), out, draws), ""]
    write_whole(out / "README.md", ("\n".join(lines).rstrip() + "\n").encode())
    print(f"written to {out / 'README.md'}", file=sys.stderr)
    return 0


def part(stem: str, result: Result, out: Path, draws: bool) -> list[str]:
    """What the report says of a file; its plots go to ``out``.

    Raises:
        BenchmarkError: a plot cannot be written.
    """
    measured = bool(cells_of(result, status="ok"))
    if result["kind"] == "training":
        lines = [f"## Training ({stem})", "", *tables.training(result)]
        return lines + (_plot("bars", result, out, stem) if measured and draws else [])
    if result["kind"] != "inference":
        raise BenchmarkError(f"{stem}.json holds results of kind {result['kind']!r}; expected inference or training")
    title = TITLES.get(result["settings"].get("preset"), "Inference")
    lines = [f"## {title} ({stem})", ""]
    maps = result["settings"].get("preset") == "table3" and ours_of(result) and cells_of(result, model=STORED)
    if maps:
        lines += [*tables.table3(result), ""]
        lines += _plot("heat_maps", result, out, f"{stem}_ratios") if draws else []
        lines += ["<details><summary>All figures</summary>", "", *tables.by_model(result), "", "</details>"]
    else:
        lines += tables.by_model(result)
    if measured and draws and len({cell["n"] for cell in cells_of(result, status="ok")}) > 1:
        lines += _plot("lines_by_length", result, out, stem)
    return lines


def _plot(function: str, result: Result, out: Path, stem: str) -> list[str]:
    from benchmarks.efficiency import plots

    getattr(plots, function)(result, out / f"{stem}.png")
    return ["", f"![{stem}]({stem}.png)", ""]
