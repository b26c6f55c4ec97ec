"""`linformer benchmark report`: tables and plots of all measurements, from their JSON files."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.efficiency import (
    ablation,
    exponents,
    optimizer,
    padding,
    precision,
    prediction,
    profile,
    selfcheck,
    tables,
)
from benchmarks.efficiency.cells import STORED, Result, by_length_alone, cells_of, ours_of
from benchmarks.efficiency.store import read
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import naming
from linformer_fairseq.files.markdown import picture

TITLES: dict[str | None, str] = {
    "table1": "Table 1 of the paper",
    "table3": "Table 3 of the paper",
    "figure2": "Figure 2 of the paper, and other Linformers",
    "short": "Short inputs",
    "long": "One forward pass over 1,048,576 tokens",
    None: "Inference",
}
TABLES: dict[str, Callable[[Result], list[str]]] = {
    "training": tables.training,
    "selfcheck": selfcheck.table,
    "ablation": ablation.table,
    "profile": profile.table,
    "optimizer": optimizer.table,
    "padding": padding.table,
    "prediction": prediction.table,
    "precision": precision.table,
}
"""Functions that make the table for a result file, by its kind; all kinds but inference."""


def run(args: argparse.Namespace) -> int:
    """Write the report; returns the exit status.

    Raises:
        UserError: no results.
        OSError: the folder cannot be written.
    """
    out = args.out or args.results
    files = sorted(args.results.glob("*.json")) if args.results.is_dir() else []
    if not files:
        raise UserError(f"{args.results} has no JSON files; `linformer benchmark inference` writes some")
    draws = importlib.util.find_spec("matplotlib") is not None
    if not draws:
        print("no plots: matplotlib is not installed", file=sys.stderr)
    where = "in this folder" if out.resolve() == args.results.resolve() else f"in {args.results}"
    lines = ["# Efficiency", "", f"Made by `linformer benchmark report` from the JSON files {where}.", ""]
    for path in files:
        with naming(path):
            lines += [*part(path.stem, read(path), out, draws), ""]
    write_file(out / "README.md", "\n".join(lines).rstrip() + "\n")
    print(f"written to {out / 'README.md'}", file=sys.stderr)
    return 0


def part(stem: str, result: Result, out: Path, draws: bool) -> list[str]:
    """The section for a result file; its plots are written to ``out``.

    Raises:
        UserError: the results are of an unknown kind.
        OSError: a plot cannot be written.
    """
    kind = result["kind"]
    if kind == "inference":
        return _inference(stem, result, out, draws)
    if kind not in TABLES:
        expected = ", ".join(["inference", *TABLES])
        raise UserError(f"{stem}.json holds results of kind {kind!r}; expected one of {expected}")
    lines = [f"## {'Self-check' if kind == 'selfcheck' else kind.capitalize()} ({stem})", "", *TABLES[kind](result)]
    if kind == "training" and draws and cells_of(result, status="ok"):
        lines += _plot("bars", result, out, stem)
    return lines


def _inference(stem: str, result: Result, out: Path, draws: bool) -> list[str]:
    preset = result["settings"].get("preset")
    lines = [f"## {TITLES.get(preset, 'Inference')} ({stem})", ""]
    if preset == "short":
        lines += [*tables.short(result), ""]
        return lines + _all_measurements(result)
    by_length = by_length_alone(result)
    if preset == "table1" and by_length:
        lines += [*exponents.table1(result), ""]
        lines += _all_measurements(result)
    elif preset == "table3" and ours_of(result) and by_length:
        lines += [*tables.table3(result), ""]
        if draws and cells_of(result, model=STORED, status="ok"):
            lines += _plot("heat_maps", result, out, f"{stem}_ratios")
        lines += _all_measurements(result)
    else:
        lines += tables.by_model(result)
    if draws and by_length and len({cell["length"] for cell in cells_of(result, status="ok")}) > 1:
        lines += _plot("lines_by_length", result, out, stem)
    return lines


def _all_measurements(result: Result) -> list[str]:
    """The table of all models, which opens when it is clicked."""
    return ["<details><summary>All measurements</summary>", "", *tables.by_model(result), "", "</details>"]


def _plot(function: str, result: Result, out: Path, stem: str) -> list[str]:
    from benchmarks.efficiency import plots

    getattr(plots, function)(result, out / f"{stem}.png")
    return ["", picture(stem, Path(f"{stem}.png")), ""]
