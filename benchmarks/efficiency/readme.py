"""`linformer benchmark readme`: the tables of the documentation, made from the JSON files in results/."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import binarizing, preparation
from benchmarks.efficiency import exponents, report, tables
from benchmarks.efficiency.cells import (
    DENSE_FORMS,
    Result,
    best_of,
    both_forms,
    by_lengths,
    cell_of,
    label,
    ours_of,
)
from benchmarks.efficiency.energy import WATTS, energy_table
from benchmarks.efficiency.store import files_of, of_preset, read
from benchmarks.measuring import ROOT, said
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import naming, read_object
from linformer_fairseq.files.markdown import markdown_table, picture

PAGES = ("README.md", "docs/performance.md", "benchmarks/NOTES.md")
LONGEST_SHORT = 128
"""Largest length in the table of ranges: from 256 on, `projection=linear` with k = 128 was faster everywhere."""
IN_SHORT = ("roberta_sdpa_core", "roberta_hf", "roberta_fairseq", "fairseq_linformer", "linformer_convolution")
"""The models of the short table of speed."""


def speed(results: Path) -> list[str]:
    """Figure 2 and training in one short table: how many times faster ours is. Training is the first that was measured
    with both forms of the dense rival, and Figure 2 is of the same machine, if there is one."""
    trainings = [read(path) for path in files_of("training", results)]
    training = next((one for one in trainings if not one["settings"]["preset"] and both_forms(one)), None)
    forwards = [result for _, result in by_lengths(results, "figure2")]
    if not forwards:
        return []
    machine = training and training["provenance"]["hardware"]
    alike = [one for one in forwards if one["provenance"]["hardware"] == machine]
    forward = (alike or forwards)[0]
    ours = ours_of(forward)
    columns: list[tuple[str, Callable[[str], str]]] = []
    for n in sorted({cell["length"] for cell in forward["cells"]} & set(tables.SHOWN)):
        columns.append((f"forward pass, n = {n:,}", partial(_ratio, forward, ours, length=n)))
    if training is not None:
        bare = {"path": "bare", "dropout": min(training["settings"]["dropouts"])}
        name = ours_of(training)
        for n in sorted({cell["length"] for cell in training["cells"]}):
            columns.append((f"training, n = {n:,}", partial(_ratio, training, name, length=n, **bare)))
    rows = [[label(model), *(text(model) for _, text in columns)] for model in IN_SHORT]
    made = [result["provenance"] for result in (forward, training) if result is not None]
    return [
        *markdown_table([["times as fast as", *(title for title, _ in columns)], *rows]),
        "",
        *(f"({said(one)})" for one in made),
    ]


def _ratio(result: Result, ours: str | None, model: str, **wanted: Any) -> str:
    """How many times faster ours is than a model (the dense rival in its better form), and in square brackets how many
    times fewer operations it takes; a dash if one has no time."""
    cell = cell_of(result, model=ours, **wanted)
    base = best_of(DENSE_FORMS if model in DENSE_FORMS else (model,), result, cell)
    return tables.faster_text(base, cell) or "-"


def figure2(results: Path) -> list[str]:
    """Figure 2's models by length, for each file of that preset."""
    lines: list[str] = []
    for path, result in by_lengths(results, "figure2"):
        lines += [*tables.by_length(result), "", *tables.outliers_note(result), *tables.notes(result), ""]
        lines += _picture(results, path.stem, "time and memory against n")
    return lines


def table1(results: Path) -> list[str]:
    """Table 1 of the paper, for each file of that preset."""
    lines: list[str] = []
    for path, result in by_lengths(results, "table1"):
        lines += [*exponents.table1(result), "", *_picture(results, path.stem, "time and memory against n")]
    return lines


def energy(results: Path) -> list[str]:
    """Energy of inference, for each file of Figure 2."""
    found = by_lengths(results, "figure2")
    return [line for _, result in found for line in [*energy_table(result, WATTS), ""]]


def short(results: Path) -> list[str]:
    """Short inputs, for each file of that preset."""
    return [line for _, result in of_preset(results, "short") for line in [*tables.short(result), ""]]


def short_ranges(results: Path) -> list[str]:
    """The ranges of the ratios of short inputs, in inference and training: a table with a row for each file."""
    found = [result for kind in ("inference", "training") for _, result in of_preset(results, "short", kind)]
    return tables.short_ranges(found, LONGEST_SHORT)


def table3(results: Path) -> list[str]:
    """Table 3 of the paper, for each file of that preset."""
    lines: list[str] = []
    for path, result in by_lengths(results, "table3"):
        lines += [*tables.table3(result), "", *_picture(results, f"{path.stem}_ratios", "Table 3")]
    return lines


def training(results: Path) -> list[str]:
    """Training on full inputs, for each file; `short_ranges` has what was measured on short ones."""
    return [line for _, result in of_preset(results, None, "training") for line in [*tables.training(result), ""]]


def of_kind(kind: str, results: Path) -> list[str]:
    """The tables of all files of a kind that ``report.TABLES`` has; no lines if nothing was measured."""
    lines: list[str] = []
    for path in files_of(kind, results):
        with naming(path):
            lines += [*report.TABLES[kind](read(path)), ""]
    return lines


def _picture(results: Path, stem: str, text: str) -> list[str]:
    """A line that shows a plot of the report, if it exists, on a page in a folder next to results/."""
    there = (results / "efficiency" / f"{stem}.png").is_file()
    return [picture(text, Path("../results/efficiency", f"{stem}.png")), ""] if there else []


PARTS: dict[str, Callable[[Path], list[str]]] = {
    "speed": speed,
    "table1": table1,
    "figure2": figure2,
    "energy": energy,
    "short": short,
    "short_ranges": short_ranges,
    "table3": table3,
    **{kind: partial(of_kind, kind) for kind in report.TABLES},
    "training": training,
    "data_prep": lambda results: binarizing.comparison(read_object(results / "data_prep/binarize.json")),
    "preparation": lambda results: preparation.by_size(read_object(results / "data_prep/preparation.json")),
}
"""Functions by the name of their markers: they take the folder of all results and return Markdown, or no lines if
nothing was measured."""


def filled(page: str, results: Path) -> str:
    """A page with new text between its markers.

    Raises:
        UserError: a marker without its other half, or a file of results that cannot be read.
    """
    for name, part in PARTS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        if page.count(begin) != page.count(end) or page.count(begin) > 1:
            raise UserError(f"expected {begin.strip()} and {end.strip()} once each, or neither")
        if begin in page:
            before, rest = page.split(begin)
            text = "\n".join(part(results)).strip() or "(Not measured yet.)"
            page = f"{before}{begin}{text}\n{end}{rest.split(end)[1]}"
    return page


def run(args: argparse.Namespace) -> int:
    """Write the pages, or check them; returns the exit status.

    Raises:
        UserError: a file of results cannot be read.
        OSError: a page cannot be read or written.
    """
    status = 0
    for name in PAGES:
        page = ROOT / name
        old = page.read_text(encoding="utf-8")
        new = filled(old, ROOT / "results")
        if old == new:
            continue
        print(f"{name}: {'does not match results/' if args.check else 'written'}", file=sys.stderr)
        if args.check:
            status = 1
        else:
            write_file(page, new)
    return status
