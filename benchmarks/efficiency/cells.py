"""What tables and plots read from a result: its cells, the ratios between them, and how both are named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.presets import FORMS
from benchmarks.efficiency.store import Cell, of_preset
from benchmarks.efficiency.timing import times_faster
from linformer_fairseq.files.json_records import naming

STORED, FUSED, HUGGING_FACE = "roberta_materialised", "roberta_fairseq", "roberta_hf"
DENSE_FORMS = dict(zip(FORMS, ("in one piece", "in our blocks"), strict=True))
"""The forms of the dense rival: our layer with n x n attention. The one counts over which ours gains less."""
OUR_MODELS = ("linformer", "linformer_core", "linformer_convolution", "linformer_core_convolution")
Result = dict[str, Any]
Ratio = Callable[[Cell | None, Cell | None], float | None]
STATUS = {
    "too_slow": "too slow",
    "out_of_memory": "out of memory",
    "not_installed": "not installed",
    "failed": "failed",
}


def label(name: str) -> str:
    """A model's label in tables; the name itself if this version does not have the model."""
    return MODELS[name].label if name in MODELS else name


def number(value: float | None) -> str:
    """A number with three significant digits, at least; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cells_of(result: Result, **wanted: Any) -> list[Cell]:
    """Cells with these values."""
    return [cell for cell in result["cells"] if all(cell[key] == value for key, value in wanted.items())]


def cell_of(result: Result, **wanted: Any) -> Cell | None:
    """The first cell with these values."""
    return next(iter(cells_of(result, **wanted)), None)


def ours_of(result: Result) -> str | None:
    """The name under which our model was measured."""
    return next((name for name in OUR_MODELS if cells_of(result, model=name, status="ok")), None)


def both_forms(result: Result) -> bool:
    """Whether the dense rival was measured in both forms: only then is its better form known."""
    return all(cells_of(result, model=name) for name in DENSE_FORMS)


def fewer_operations(base: Cell, other: Cell) -> float:
    """How many times fewer operations a token takes, by formula: the gain of the method in any implementation."""
    return float(base["operations"] / base["tokens"] / (other["operations"] / other["tokens"]))


def faster(base: Cell | None, other: Cell | None) -> float | None:
    """How many times less time a token takes: the median over the rounds."""
    if base is None or other is None or base["status"] != "ok" or other["status"] != "ok":
        return None
    return times_faster(base["all_seconds"], other["all_seconds"], (base["tokens"], other["tokens"]))[1]


def less_memory(base: Cell | None, other: Cell | None, by_batch: bool) -> float | None:
    """How many times larger the batch that fits is, or how many times less memory a token takes; None for batches that
    other limits than memory ended."""
    if base is None or other is None or base["status"] != "ok" or other["status"] != "ok":
        return None
    if by_batch:
        by_memory = all(cell["batch_limited_by"].startswith("memory") for cell in (base, other))
        return float(other["batch"] / base["batch"]) if by_memory else None
    if not base["peak_bytes"] or not other["peak_bytes"]:
        return None
    return float(base["peak_bytes_per_token"] / other["peak_bytes_per_token"])


def best_of(models: Iterable[str], result: Result, ours: Cell | None, ratio: Ratio = faster) -> Cell | None:
    """The baseline of one of our cells: of the cells of these models with the same input, the one over which ours gains
    least by ``ratio``. One that was measured but has no ratio may be that one, and so comes first.

    The forms are compared by the ratio that is printed, since medians of seconds can order them otherwise.
    """
    if ours is None:
        return None
    cells = [cell for name in models for cell in cells_of(result, model=name, **same_input(ours))]
    return min(cells, key=lambda cell: (ratio(cell, ours) or 0) if cell["status"] == "ok" else math.inf, default=None)


def unique_inputs(result: Result) -> list[dict[str, Any]]:
    """The distinct values of `same_input` of the cells, in the order of the tables."""
    found: list[dict[str, Any]] = []
    for cell in sorted(result["cells"], key=place):
        if same_input(cell) not in found:
            found.append(same_input(cell))
    return found


def by_length_alone(result: Result) -> bool:
    """Whether all models of a length had the same input: then a table or a plot by length shows all cells."""
    return len(unique_inputs(result)) == len({cell["length"] for cell in result["cells"]})


def by_lengths(results: Path, preset: str) -> list[tuple[Path, Result]]:
    """The files of a preset for the tables by length; `linformer benchmark report` lists the cells of the others.

    Raises:
        UserError: a file of results cannot be read.
    """
    found = []
    for path, result in of_preset(results, preset):
        with naming(path):
            if by_length_alone(result):
                found.append((path, result))
    return found


def same_input(cell: Cell) -> dict[str, Any]:
    """The values that identify the input of a cell."""
    keys = ("n", "length", "wanted_batch", "padded", "dropout", "path")  # the last two in training
    return {key: cell[key] for key in keys if key in cell}


def place(cell: Cell) -> tuple[Any, ...]:
    """Sort key of a cell in a table: by input, then in the order of the models."""
    names = list(MODELS)
    model = names.index(cell["model"]) if cell["model"] in names else len(names)
    return cell["length"], cell["wanted_batch"] or 0, cell["padded"], model, cell["k"] or 0
