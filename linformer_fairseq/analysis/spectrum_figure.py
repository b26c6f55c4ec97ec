"""The figures of `spectrum`, as the paper's Figure 1."""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from linformer_fairseq.analysis.record import Record, matrix_name
from linformer_fairseq.analysis.spectrum import curves_of, describe, share_name, values_at
from linformer_fairseq.results.drawing import FONT, save_both

_CHARACTERS = 12
"""Characters of a title for each inch of the figure's width."""
_ANNOTATED = 16
"""Most columns of a heat map whose cells have their value in them."""
_CONTROLS = {
    "untrained": ("before training", "#d55e00", "--"),
    "random_logits": ("random logits", "#000000", ":"),
    "uniform": ("uniform P", "#777777", "-."),
}
NAMES = {"checkpoint": "model", **{name: label for name, (label, _, _) in _CONTROLS.items()}}


def draw_spectrum(record: Record, index: int | None, folder: Path) -> list[Path]:
    """Figure 1 of the paper: curves of each layer, and heat maps of the value at an index.

    Args:
        record: of `spectrum`.
        index: which singular value, from 1; None: a quarter of those of each head.
        folder: for ``spectrum_curves`` and ``spectrum_heat_map``, each as .png and .svg.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    with matplotlib.rc_context({**FONT, "svg.hashsalt": "spectrum"}):
        return [*_draw_curves(record, index, folder), *_draw_heat_maps(record, index, folder)]


def _draw_curves(record: Record, index: int | None, folder: Path) -> list[Path]:
    canvas, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    layers = curves_of(record, "checkpoint").mean(axis=1)
    places = np.arange(1, layers.shape[-1] + 1)
    for number, curve in enumerate(layers):
        shade = plt.get_cmap("viridis")(number / max(1, len(layers) - 1) * 0.9)
        axes.plot(places, curve, color=shade, linewidth=1.3, label=f"layer {number + 1}")
    for name, (label, colour, dashes) in _CONTROLS.items():
        curve = curves_of(record, name).mean(axis=(0, 1))
        axes.plot(places, curve, dashes, color=colour, linewidth=1.6, label=label)
    if index is not None:
        axes.axvline(index, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.text(index, 0.01, f" {index}", color="#777777", fontsize=8)
    axes.set_xlim(1, places[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"number of singular values of {matrix_name(record)}, largest first")
    axes.set_ylabel("share of the sum of all")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=1 + len(layers) // 10, loc="lower right")
    canvas.suptitle(describe(record), fontsize=9, parse_math=False)
    return save_both(canvas, folder / "spectrum_curves")


def _draw_heat_maps(record: Record, index: int | None, folder: Path) -> list[Path]:
    names = ("checkpoint", "untrained", "random_logits")
    values = {name: values_at(record, name, index) for name in names}
    layers, heads = values["checkpoint"].shape
    low = min(float(np.nanmin(value)) for value in values.values())
    size = (1.6 + len(names) * max(2.4, 0.45 * heads), 1.6 + max(1.6, 0.36 * layers))
    canvas, grid = plt.subplots(1, len(names), figsize=size, layout="constrained", sharey=True)
    for axes, name in zip(grid, names, strict=True):
        image = axes.imshow(values[name], vmin=low, vmax=1, cmap="cividis", aspect="auto")
        axes.set_title(NAMES[name], fontsize=9)
        axes.set_xticks(range(heads), [str(head + 1) for head in range(heads)], fontsize=7)
        axes.set_yticks(range(layers), [str(layer + 1) for layer in range(layers)], fontsize=7)
        axes.set_xlabel("head")
        if heads <= _ANNOTATED:
            _annotate(axes, values[name], low)
    grid[0].set_ylabel("layer")
    canvas.colorbar(image, ax=grid, shrink=0.9)
    title = f"{share_name(index).capitalize()} singular values; {describe(record)}"
    canvas.suptitle(textwrap.fill(title, int(_CHARACTERS * size[0])), fontsize=9, parse_math=False)
    return save_both(canvas, folder / "spectrum_heat_map")


def _annotate(axes: Axes, values: np.ndarray, low: float) -> None:
    for (layer, head), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        colour = "white" if value < (low + 1) / 2 else "black"
        axes.text(head, layer, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
