"""The figures of `theory`: errors of the paper's theorems, and of other approximations of attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from linformer_fairseq.analysis import approximations
from linformer_fairseq.analysis.record import Record
from linformer_fairseq.analysis.theorem2 import METHODS
from linformer_fairseq.results.drawing import FONT, save_both

# Okabe and Ito's colours, which colour-blind readers can distinguish.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
"""Relative errors on the axes; smaller and larger ones are not drawn."""
_LAYERS = 3
"""Most layers in the figures of the theorems; the tables have all."""
_STYLES = ("o-", "s-", "^-", "D--", "v:")
"""Of the methods of Theorem 2, some of which lie on each other."""
METHOD_NAMES = {
    "random": "random, N(0, 1/k)",
    "proof": "as in the proof",
    "window_means": "window means",
    "dct": "truncated DCT",
    "least_squares": "F by least squares",
    "trained": "the model's own",
    "mean_pooling": "mean pooling",
    "performer": "Performer",
    "nystrom": "Nystrom",
}


def draw_theory(record: Record, folder: Path) -> list[Path]:
    """Errors of both theorems over k and over n, and of other approximations over their cost.

    Args:
        record: of `theory`.
        folder: for ``theorem1``, ``theorem2`` and, if there are any, ``approximations``, each as .png and .svg.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    with matplotlib.rc_context({**FONT, "svg.hashsalt": "theory"}):
        return [
            *_draw_theorem1(record, folder),
            *_draw_theorem2(record, folder),
            *(_draw_approximations(record, folder) if record["approximations"] else []),
        ]


def _draw_theorem1(record: Record, folder: Path) -> list[Path]:
    cells = record["theorem1"]
    inputs, (length, rows) = _inputs(cells), _middle(cells)
    canvas, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    for axes, along, fixed in ((left, "k", {"n": length}), (right, "n", {"k": rows})):
        for name, colour in zip(inputs, _COLOURS, strict=False):
            found = _select(cells, along, input=name, **fixed)
            axes.plot(*_points(found, along, "error"), "o-", color=colour, markersize=4, linewidth=1.2, label=name)
            axes.plot(*_points(found, along, "expected"), "--", color=colour, linewidth=0.9)
        bound = [cell for cell in _select(cells, along, input=inputs[0], **fixed) if cell["epsilon_of_paper"]]
        if bound:
            style = {"color": "#777777", "markersize": 6, "linewidth": 1.0}
            axes.plot(*_points(bound, along, "epsilon_of_paper"), "x:", label="ε of the paper's proof", **style)
        _log_axes(
            axes, along, sorted({cell[along] for cell in cells}), ", ".join(f"{k} = {v}" for k, v in fixed.items())
        )
    left.set_ylabel("|P RᵀR w - P w| / |P w|")
    lines = _lines_of((left, right))
    right.legend(lines.values(), lines.keys(), frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    canvas.suptitle(
        f"Theorem 1: dots measured (median), dashed lines by the formula for the mean square{_drawn(cells)}",
        fontsize=10,
    )
    return save_both(canvas, folder / "theorem1")


def _draw_theorem2(record: Record, folder: Path) -> list[Path]:
    cells, trained = record["theorem2"], record["trained"]
    inputs, (length, rows) = _inputs(cells), _middle(cells)
    size = (1.8 + 2.7 * len(inputs), 6.2)
    canvas, grid = plt.subplots(2, len(inputs), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for column, name in enumerate(inputs):
        for axes, along, fixed in ((grid[0][column], "k", {"n": length}), (grid[1][column], "n", {"k": rows})):
            found = _select(cells, along, input=name, **fixed)
            _draw_errors(axes, found, along, METHODS)
            if own := _select(trained, along, input=name, **fixed):
                label = f"{METHOD_NAMES['trained']}, k = {own[0]['k']}"
                axes.plot(*_points(own, along, "error"), "*", color="#000000", markersize=10, label=label)
            axes.axhline(1, color="#999999", linewidth=0.8)
            text = ", ".join(f"{k} = {v}" for k, v in fixed.items())
            _log_axes(axes, along, sorted({cell[along] for cell in cells}), f"{name}\n{text}")
    for line in grid:
        line[0].set_ylabel("|A' - A| / |A|")
    lines = _lines_of(grid.flat)
    canvas.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    canvas.suptitle(
        f"Theorem 2: relative error of the output of attention; the grey line is output zero{_drawn(cells)}",
        fontsize=10,
    )
    return save_both(canvas, folder / "theorem2")


def _draw_approximations(record: Record, folder: Path) -> list[Path]:
    cells = record["approximations"]
    inputs, length = _inputs(cells), max(cell["n"] for cell in cells)
    size = (1.8 + 2.7 * len(inputs), 3.8)
    canvas, grid = plt.subplots(1, len(inputs), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for axes, name in zip(grid[0], inputs, strict=True):
        found = _select(cells, "k", input=name, n=length)
        _draw_errors(axes, found, "k", approximations.METHODS)
        axes.axhline(1, color="#999999", linewidth=0.8)
        _log_axes(axes, "k", sorted({cell["k"] for cell in found}), name)
        axes.set_xlabel("k rows of E and F cost as much")
    grid[0][0].set_ylabel("|A' - A| / |A|")
    lines, labels = grid[0][0].get_legend_handles_labels()
    canvas.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    canvas.suptitle(
        f"Relative error at equal cost, n = {length}; the grey line is output zero{_drawn(cells)}", fontsize=10
    )
    return save_both(canvas, folder / "approximations")


def _draw_errors(axes: Axes, cells: Sequence[Record], along: str, methods: Sequence[str]) -> None:
    """A line of each method."""
    for method, colour, style in zip(methods, _COLOURS, _STYLES, strict=False):
        points = [(cell[along], cell["errors"][method] or math.nan) for cell in cells]  # 0 has no place on the axis
        label = METHOD_NAMES[method]
        axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4, linewidth=1.1, label=label)


def _lines_of(grid: Iterable[Axes]) -> dict[str, Any]:
    """The lines of several axes by their labels, each label once, for one legend of all."""
    return {label: line for axes in grid for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}


def _middle(cells: Sequence[Record]) -> tuple[int, int]:
    """The largest n; and the largest k that every n has."""
    by_length: dict[int, set[int]] = {}
    for cell in cells:
        by_length.setdefault(cell["n"], set()).add(cell["k"])
    return max(by_length), max(set.intersection(*by_length.values()))


def _inputs(cells: Sequence[Record]) -> list[str]:
    """What is drawn, and of a model's layers a few from the first to the last."""
    names = list(dict.fromkeys(cell["input"] for cell in cells))
    layers = _layers(cells)
    if len(layers) > _LAYERS:
        layers = [layers[round(number * (len(layers) - 1) / (_LAYERS - 1))] for number in range(_LAYERS)]
    return [*(name for name in names if not name.startswith("layer ")), *layers]


def _layers(cells: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(cell["input"] for cell in cells if cell["input"].startswith("layer ")))


def _drawn(cells: Sequence[Record]) -> str:
    """Says so where some of the layers are left out, or values."""
    count = len(_layers(cells))
    layers = f"; {_LAYERS} of {count} layers" if count > _LAYERS else ""
    return f"{layers}; values outside {_STEPS[0]:g} to {_STEPS[-1]:g} are not drawn"


def _select(cells: Sequence[Record], order: str, **wanted: Any) -> list[Record]:
    """The cells with these values, sorted by one of the others."""
    found = [cell for cell in cells if all(cell[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda cell: cell[order])


def _points(cells: Sequence[Mapping[str, Any]], along: str, value: str) -> tuple[list[float], list[float]]:
    return [cell[along] for cell in cells], [cell[value] for cell in cells]


def _log_axes(axes: Axes, along: str, ticks: Sequence[int], title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=8)
    axes.set_yticks(_STEPS, [f"{step:g}" for step in _STEPS], fontsize=8)
    axes.minorticks_off()
    axes.set_ylim(_STEPS[0], _STEPS[-1])
    axes.set_xlabel(along)
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
