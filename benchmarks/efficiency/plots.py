"""Plots of results; equal results give identical files."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.efficiency.cells import (
    DENSE_FORMS,
    STATUS,
    STORED,
    Ratio,
    Result,
    best_of,
    cell_of,
    cells_of,
    faster,
    label,
    less_memory,
    ours_of,
)
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.tables import size_of

# Okabe and Ito's colours, which colour-blind people can distinguish: ours, RoBERTas, other Linformers.
_STYLES: dict[str, tuple[str, str]] = {
    "linformer": ("#0072b2", "-"),
    "linformer_compiled": ("#0072b2", "--"),
    "linformer_convolution": ("#0072b2", "-."),
    "linformer_recomputed": ("#0072b2", ":"),
    "linformer_core": ("#56b4e9", "-"),
    "linformer_core_compiled": ("#56b4e9", "--"),
    "linformer_core_convolution": ("#56b4e9", "-."),
    "linformer_core_mean_pool": ("#56b4e9", ":"),
    "performer": ("#d55e00", "--"),
    "nystrom": ("#009e73", "--"),
    "recurrent": ("#cc79a7", "--"),
    "roberta_sdpa_core": ("#777777", "-"),
    "roberta_sdpa_core_blocks": ("#777777", "-."),
    "roberta_sdpa_core_compiled": ("#777777", "--"),
    "roberta_materialised": ("#000000", "-"),
    "roberta_fairseq": ("#000000", "--"),
    "roberta_hf": ("#000000", ":"),
    "fairseq_linformer": ("#d55e00", "-"),
    "lucidrains": ("#009e73", "-"),
    "linformer_pytorch": ("#cc79a7", "-"),
}


def lines_by_length(result: Result, path: Path) -> None:
    """Figure 2 of the paper: time and memory per token against the length, with a line for each model and k."""
    plt = _pyplot()
    figure, grid = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
    panels = [
        (grid[0], "time of a token, microseconds", lambda cell: 1e6 / cell["tokens_per_second"]),
        (grid[1], "peak memory of a token, KiB", lambda cell: (cell["peak_bytes_per_token"] or 0) / 1024),
    ]
    measured = cells_of(result, status="ok")
    several = len({cell["k"] for cell in measured if cell["k"] is not None}) > 1
    variants = sorted({(cell["model"], cell["k"] or 0) for cell in measured}, key=_order)
    for axes, title, value in panels:
        ends = []
        for model, k in variants:
            points = [
                (cell["length"], value(cell)) for cell in measured if (cell["model"], cell["k"] or 0) == (model, k)
            ]
            points = sorted(point for point in points if point[1] > 0)
            if not points:
                continue
            colour, dashes = _STYLES.get(model, ("#e69f00", "-"))
            fade = 0.35 + 0.65 / (1 + _rank(k, variants)) if several and k else 1.0
            axes.plot(*zip(*points, strict=True), dashes, color=colour, alpha=fade, marker="o", markersize=3.5)
            ends.append((points[-1], label(model) + (f", k = {k:,}" if several and k else ""), colour))
        _axes(axes, title, sorted({cell["length"] for cell in measured}))
        _labels(axes, ends)
    figure.suptitle(_caption(result), fontsize=9)
    _save(plt, figure, path)


def heat_maps(result: Result, path: Path) -> None:
    """Table 3 of the paper: how many times faster and how many times less memory, by n and k."""
    plt = _pyplot()
    from matplotlib.colors import LogNorm

    ours = ours_of(result)
    assert ours is not None
    by_batch = bool(result["settings"]["largest_batch"])
    rows = sorted({cell["length"] for cell in cells_of(result, model=ours)})
    columns = sorted({cell["k"] for cell in cells_of(result, model=ours)})
    dense, space = tuple(DENSE_FORMS), partial(less_memory, by_batch=by_batch)
    panels: list[tuple[str, tuple[str, ...], Ratio]] = [
        ("times faster than the dense rival", dense, faster),
        (f"times faster than: {label(STORED)}", (STORED,), faster),
        ("times less memory than the dense rival", dense, space),
        (f"times less memory than: {label(STORED)}", (STORED,), space),
    ]
    panels = [panel for panel in panels if any(cells_of(result, model=name) for name in panel[1])]
    size = (1 + 4.5 * len(panels), 1.6 + 0.5 * len(rows))
    figure, grid = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for axes, (title, models, ratio) in zip(grid[0], panels, strict=True):
        values, bases = [], {}
        for n in rows:
            cells = [cell_of(result, model=ours, length=n, k=k) for k in columns]
            found = [best_of(models, result, cell, ratio) for cell in cells]
            bases[n] = next((base for base in found if base is not None), None)
            ratios = [ratio(base, cell) for base, cell in zip(found, cells, strict=True)]
            values.append([math.nan if one is None else one for one in ratios])
        _heat(axes, values, LogNorm(0.5, 64))
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(columns)), [f"{k:,}" for k in columns])
        axes.set_yticks(range(len(rows)), [_row_name(*row) for row in bases.items()])
        axes.set_xlabel("k")
        axes.set_ylabel("T" if result["settings"]["positions"] else "n")
    figure.suptitle(f"{label(ours)}; {_caption(result)}", fontsize=9)
    _save(plt, figure, path)


def bars(result: Result, path: Path) -> None:
    """Training speed: tokens per second of each model in both training loops, by length and dropout."""
    plt = _pyplot()
    panels = sorted({(cell["length"], cell["dropout"]) for cell in cells_of(result, status="ok")})
    lengths, dropouts = sorted({one[0] for one in panels}), sorted({one[1] for one in panels})
    names = dict.fromkeys((cell["model"], cell["k"]) for cell in result["cells"])
    several = len({k for _, k in names if k is not None}) > 1
    loops = {"bare": "bare", "trainer": "through fairseq"}
    both = len({cell["path"] for cell in result["cells"]}) > 1
    size = (2.8 + 3.2 * len(lengths), len(dropouts) * (1.6 + 0.7 * len(names)))
    figure, grid = plt.subplots(
        len(dropouts), len(lengths), sharex=True, sharey=True, squeeze=False, figsize=size, layout="constrained"
    )
    for axes in grid.flat:
        axes.set_visible(False)  # one that was not measured
    for length, dropout in panels:
        axes = grid[dropouts.index(dropout)][lengths.index(length)]
        axes.set_visible(True)
        leftmost = length == min(other for other, of in panels if of == dropout)
        axes.tick_params(labelbottom=True, labelleft=leftmost)
        cells = {"cells": cells_of(result, length=length, dropout=dropout)}
        for path_name, shade, shift in (("bare", 0.45, -0.2), ("trainer", 1.0, 0.2)):
            for row, (model, k) in enumerate(names):
                cell = cell_of(cells, model=model, k=k, path=path_name)
                if cell is None:
                    continue
                place = row + shift if both else row
                if cell["status"] != "ok":
                    axes.text(0, place, f" {STATUS[cell['status']]}", va="center", fontsize=8)
                    continue
                speed = cell["tokens_per_second"]
                axes.barh(place, speed, 0.36, color=_STYLES.get(model, ("#e69f00", "-"))[0], alpha=shade)
                said = f" {speed:,.0f}" + (f" {loops[path_name]}" if both else "")
                axes.text(speed, place, said, va="center", fontsize=8)
        labels = [label(model) + (f", k = {k:,}" if several and k else "") for model, k in names]
        axes.set_yticks(range(len(names)), labels, fontsize=8)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.margins(x=0.45)
        axes.set_xlim(left=0)
        axes.set_title(f"T = {length:,}, dropout {dropout:g}", fontsize=10)
        axes.set_xlabel("tokens per second" + ("" if both else f", {loops[result['cells'][0]['path']]}"))
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(_caption(result) + f", {result['settings']['optimizer']}", fontsize=9)
    _save(plt, figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _order(variant: tuple[str, int]) -> tuple[int, int]:
    names = list(_STYLES)
    return (names.index(variant[0]) if variant[0] in names else len(names)), variant[1]


def _rank(k: int, variants: Sequence[tuple[str, int]]) -> int:
    return sorted({other for _, other in variants if other}).index(k)


def _caption(result: Result) -> str:
    return f"{size_of(result)}, {result['settings']['dtype']}; {result['provenance']['hardware']}"


def _axes(axes: Any, title: str, lengths: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths], fontsize=8)
    axes.minorticks_off()
    axes.set_xlim(lengths[0] / 1.15, lengths[-1] * 1.15)
    axes.set_xlabel("length n")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    low, high = axes.get_ylim()
    if high < 10 * low:  # show at least one decade, so that differences of a few percent look small
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
        axes.set_ylim(low, high)
    steps = [s * 10.0**e for e in range(-4, 9) for s in (1, 2, 5) if low <= s * 10.0**e <= high]
    axes.set_yticks(steps, [f"{step:,g}" for step in steps], fontsize=8)


def _labels(axes: Any, ends: Sequence[tuple[tuple[float, float], str, str]]) -> None:
    """Labels each line at its right end; labels are moved so that they do not overlap."""
    low, high = (math.log(value) for value in axes.get_ylim())
    wanted = sorted((((math.log(y) - low) / (high - low)), x, y, text, colour) for (x, y), text, colour in ends)
    places = spread([place for place, *_ in wanted], 0.045)
    for place, (_, x, y, text, colour) in zip(places, wanted, strict=True):
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "alpha": 0.6, "relpos": (0, 0.5), "shrinkA": 0}
        axes.annotate(
            text,
            xy=(x, y),
            xytext=(1.04, place),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            arrowprops=line,
            annotation_clip=False,
        )


def spread(wanted: Sequence[float], step: float) -> list[float]:
    """Positions near those wanted (in ascending order), at least ``step`` apart, and none below 0."""
    blocks: list[list[float]] = []  # positions minus number * step; adjacent ones that would overlap share their mean
    for number, place in enumerate(wanted):
        blocks.append([place - number * step])
        while len(blocks) > 1 and statistics.fmean(blocks[-2]) > statistics.fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    means = [statistics.fmean(block) for block in blocks for _ in block]
    return [max(mean, 0) + number * step for number, mean in enumerate(means)]


def _row_name(n: int, base: Cell | None) -> str:
    """The length, and the status of the baseline if it has no time."""
    return f"{n:,}" if base is None or base["status"] == "ok" else f"{n:,}: Transformer\n{STATUS[base['status']]}"


def _heat(axes: Any, values: list[list[float]], norm: Any) -> None:
    axes.imshow(values, norm=norm, cmap="cividis", aspect="auto")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if not math.isnan(value):
                shade = "white" if value < 5 else "black"
                axes.text(column, row, f"{value:.3g}", ha="center", va="center", color=shade, fontsize=9)


def _save(plt: Any, figure: Any, path: Path) -> None:
    from linformer_fairseq.results.drawing import save

    save(figure, path)
    plt.close(figure)
