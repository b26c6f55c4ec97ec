"""Table 1 of the paper: how operations, time and memory of a layer grow with n, beside what it prints."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from benchmarks.efficiency.cells import STATUS, Result, cells_of, label, number
from benchmarks.efficiency.paper import COMPLEXITIES, Complexity
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.tables import notes, outliers_note, size_of, star
from linformer_fairseq.files.markdown import markdown_table

FITTED = 4
"""How many of the longest lengths the exponents are fitted to."""
ROWS: Mapping[str, str] = {
    "recurrent": "Recurrent",
    "roberta_materialised": "Transformer",
    "roberta_sdpa_core": "Transformer",
    "roberta_sdpa_core_blocks": "Transformer",
    "linformer_core": "Linformer",
    "linformer_core_mean_pool": "Linformer",
}
"""The row of the paper's table that a model is an example of. The paper's table does not have the other models."""


def exponent(values: Mapping[int, float]) -> float | None:
    """a of the power law c n^a that fits values by n: the least-squares slope of log value against log n; None for
    fewer than two values or one of zero."""
    if len(values) < 2 or min(values.values()) <= 0:
        return None
    return statistics.linear_regression(*([math.log(one) for one in column] for column in (values, values.values())))[0]


def table1(result: Result) -> list[str]:
    """Exponents of each model and its figures at the ends of the range; the paper's rows in its order, others last."""
    order = [row.architecture for row in COMPLEXITIES]
    variants = dict.fromkeys((cell["model"], cell["k"]) for cell in result["cells"])
    ranked = sorted(variants, key=lambda variant: order.index(ROWS[variant[0]]) if variant[0] in ROWS else len(order))
    lengths = sorted({cell["length"] for cell in result["cells"]})
    ends, fitted = dict.fromkeys((lengths[0], lengths[-1])), lengths[-FITTED:]
    head = ["the paper's row", "per layer", "sequential", "model", "operations", "time", "memory"]
    head += [f"{unit}, n = {n:,}" for unit in ("ms", "MiB") for n in ends]
    printed = {row.architecture: row for row in COMPLEXITIES}
    rows = [head]
    for model, k in ranked:
        cells = {cell["length"]: cell for cell in cells_of(result, model=model, k=k)}
        name = label(model) + (f", k = {k:,}" if k else "")
        exponents = _exponents({n: cells[n] for n in fitted if n in cells})
        rows.append([*_of_paper(printed.get(ROWS.get(model, ""))), name, *exponents, *_figures(cells, ends)])
    measured = {ROWS[model] for model, _ in variants if model in ROWS}
    for row in COMPLEXITIES:
        if row.architecture not in measured:
            rows.append([*_of_paper(row), "not run", *["-"] * (len(head) - 4)])
    settings = result["settings"]
    return [
        f"On {result['provenance']['hardware']}, in {settings['dtype']}, {size_of(result)} and embeddings, threads: "
        f"{settings['threads']}; one sequence of n positions. The paper's columns are its Table 1: the complexity of a "
        "layer, and the least number of sequential operations. Operations (by formula), time and memory (peak beyond "
        f"the weights) are the exponent a of c n^a, fitted to n = {', '.join(f'{n:,}' for n in fitted)}. "
        "A layer also has parts that are linear in n, with the width squared as factor, so exponents of n x n "
        "attention are below 2 for n of the size of the width. k is the number of projected rows, features "
        "(Performer) or landmarks (Nystrom). P stored: the n x n attention probabilities are written to memory, which "
        "torch's fused kernels avoid.",
        "",
        *markdown_table(rows, left=range(4)),
        "",
        *outliers_note(result),
        *notes(result),
    ]


def _of_paper(row: Complexity | None) -> list[str]:
    return ["not in it", "-", "-"] if row is None else [row.architecture, row.per_layer, row.sequential]


def _exponents(cells: Mapping[int, Cell]) -> list[str]:
    """Of the operations, the time and the memory of a sequence, fitted to the cells that have a time."""
    there = {n: cell for n, cell in cells.items() if cell["status"] == "ok"}
    found = [
        exponent({n: cell[key] / cell["batch"] for n, cell in there.items() if cell[key] is not None})
        for key in ("operations", "seconds", "peak_bytes")
    ]
    return ["-" if one is None else f"{one:.2f}" for one in found]


def _figures(cells: Mapping[int, Cell], lengths: Mapping[int, None]) -> list[str]:
    """Milliseconds, then MiB, at each of some lengths."""
    times, memory = [], []
    for n in lengths:
        cell = cells.get(n)
        if cell is None or cell["status"] != "ok":  # k is not below n; or no time
            times.append(STATUS[cell["status"]] if cell else "-")
            memory.append("-")
            continue
        times.append(number(1e3 * cell["seconds"] / cell["batch"]) + star(cell))
        peak = cell["peak_bytes"]
        memory.append("-" if peak is None else number(peak / cell["batch"] / 2**20))
    return [*times, *memory]
