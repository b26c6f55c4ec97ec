"""`linformer results`: collects the results of runs, and makes tables and figures from them."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from linformer_fairseq.files.atomic import check_output, write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import naming
from linformer_fairseq.results import collect, merge_rows, read_rows, render
from linformer_fairseq.results.accuracy import accuracy_table, read_controls
from linformer_fairseq.results.curves import Figure
from linformer_fairseq.results.figure3 import figures
from linformer_fairseq.results.perplexity import perplexity_figure, perplexity_table
from linformer_fairseq.results.table2 import table2


def run(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit status."""
    if arguments.action == "collect":
        check_output("--out", arguments.out)
    elif arguments.action != "figure3" and arguments.out:
        check_output("--out", arguments.out, arguments.runs, *getattr(arguments, "controls", []))
    # Of a damaged row, each field may be of its type, and all the same be none that can be computed with.
    with nullcontext() if arguments.action == "collect" else naming(arguments.runs):
        _ACTIONS[arguments.action](arguments)
    return 0


def _collect(arguments: argparse.Namespace) -> None:
    found = collect(arguments.folders)
    for remark in found.left_out:
        _warn(f"left out: {remark}")
    for remark in found.remarks:
        _warn(remark)
    if not found.rows:
        where = ", ".join(map(str, arguments.folders))
        raise UserError(
            f"{where}: {'none of the runs there can be read' if found.left_out else 'no run folders (with a run.json)'}"
        )
    new, replaced, older = merge_rows(arguments.out, found.rows)
    for row in older:
        _warn(f"{row.name}: left out: an earlier state of a run whose row in {arguments.out} is further")
    finished = sum(row.finished for row in found.rows)
    print(
        f"{len(found.rows)} runs, {finished} of them finished, {len(found.left_out)} left out: "
        f"{new} new rows, {replaced} replaced in {arguments.out}"
    )


def _table2(arguments: argparse.Namespace) -> None:
    _put(getattr(render, arguments.format)(*table2(read_rows(arguments.runs))), arguments.out)


def _figure3(arguments: argparse.Namespace) -> None:
    found, remarks = figures(read_rows(arguments.runs))
    _draw(found, remarks, arguments.out or arguments.runs.parent)


def _perplexity(arguments: argparse.Namespace) -> None:
    rows = read_rows(arguments.runs)
    _put(render.markdown(*perplexity_table(rows)), arguments.out)
    if arguments.figure:
        figure, remarks = perplexity_figure(rows)
        _draw([figure], remarks, arguments.figure)


def _accuracy(arguments: argparse.Namespace) -> None:
    table = accuracy_table(read_rows(arguments.runs), read_controls(arguments.controls))
    _put(render.markdown(*table), arguments.out)


def _put(text: str, path: Path | None) -> None:
    if path:
        write_file(path, text)
        print(path)
    else:
        print(text, end="")


def _draw(figures: list[Figure], remarks: list[str], folder: Path) -> None:
    try:  # only figures need matplotlib
        from linformer_fairseq.results.drawing import draw
    except ModuleNotFoundError as error:
        raise UserError(f"figures need {error.name}, which is not installed: pip install matplotlib") from None
    for remark in remarks:
        _warn(remark)
    for figure in figures:
        for path in draw(figure, folder):
            print(path)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


_ACTIONS = {
    "collect": _collect,
    "table2": _table2,
    "figure3": _figure3,
    "perplexity": _perplexity,
    "accuracy": _accuracy,
}
