"""P of every layer and head for a text, and E, as grids of heat maps."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from linformer_fairseq.analysis.attention import Floats, probabilities, weights, what_e_is
from linformer_fairseq.analysis.record import Record, matrix_name
from linformer_fairseq.results.drawing import FONT, save_both

_NAMED = 24
"""Most tokens of a figure with their names beside it."""
_LONGEST = 14
"""Characters of a name."""
_ACROSS = 6
"""Panels in a line, of E that heads share."""
# All sizes in inches, as tight and constrained layouts take minutes for hundreds of panels.
_SIDE, _LARGE_SIDE, _LINE = 1.3, 4.5, 0.15
"""Of a panel, of one that is alone, and of a line with the name of a token."""
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 1.2, 0.9, 0.5, 0.2, 0.1
_NAMES = 0.9
"""Below a panel, for the names of tokens."""
_PER_INCH = 15
"""Characters of the title."""


def draw_attention(record: Record, folder: Path) -> list[Path]:
    """P of every layer and head, and the E that they have.

    Args:
        record: of `attention`.
        folder: for ``attention`` and, if the model has projections, ``projection``, each as .png and .svg.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    with matplotlib.rc_context({**FONT, "svg.hashsalt": "attention"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of tokens in other scripts; the page has them
        paths = _draw_probabilities(record, folder)
        return paths if record["encoder"]["is_dense"] else [*paths, *_draw_weights(record, folder)]


def _draw_probabilities(record: Record, folder: Path) -> list[Path]:
    layers, heads, tokens = record["encoder"]["layers"], record["encoder"]["heads"], record["tokens"]
    columns = "tokens" if record["encoder"]["is_dense"] else "projected rows"
    height = max(_SIDE, _LINE * len(tokens)) if len(tokens) <= _NAMED else _SIDE
    title = f"{matrix_name(record)} of {_describe(record)}; lines: tokens, columns: {columns}"
    canvas, grid = _panels(layers, heads, (max(_SIDE, height / 2), height), _BOTTOM, title)
    scale = PowerNorm(0.5, 0, max(head["largest"] for layer in record["attention"] for head in layer))
    for (layer, head), axes in np.ndenumerate(grid):
        image = _heat_map(axes, probabilities(record, layer, head), "cividis", scale)
        if layer == 0:
            axes.set_title(f"head {head + 1}", fontsize=8)
        if head == 0:
            axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
            _name_tokens(axes.yaxis, tokens)
    _draw_scale(canvas, image)
    return save_both(canvas, folder / "attention")


def _draw_weights(record: Record, folder: Path) -> list[Path]:
    places = _distinct(record)
    found = [(name, weights(record, *place)) for name, place in places.items()]
    across = min(_ACROSS, len(found)) if "head" not in found[0][0].split() else record["encoder"]["heads"]
    side = _LARGE_SIDE if len(found) == 1 else _SIDE
    title = f"E of {_describe(record)}; lines: projected rows, columns: tokens. Shown: {what_e_is(record)}"
    below = _NAMES if len(found) == 1 else _BOTTOM
    canvas, grid = _panels(-(-len(found) // across), across, (side, side), below, title, gap=0.3)
    largest = max(float(np.abs(matrix).max()) for _, matrix in found if matrix is not None)
    for axes in grid.flat[len(found) :]:
        axes.set_axis_off()
    for axes, (name, matrix) in zip(grid.flat, found, strict=False):
        assert matrix is not None  # not dense
        image = _heat_map(axes, matrix, "RdBu_r", Normalize(-largest, largest))
        axes.set_title(name, fontsize=8)
    if len(found) == 1:
        _name_tokens(grid[0, 0].xaxis, record["tokens"], rotation=90)
    _draw_scale(canvas, image)
    return save_both(canvas, folder / "projection")


def _distinct(record: Record) -> dict[str, tuple[int, int]]:
    """The layer and head of each panel of E: one for all, for each layer, or for each head."""
    lines = [[head["projection"] for head in layer] for layer in record["attention"]]
    if any(len(set(line)) > 1 for line in lines):
        return {f"layer {i + 1}, head {j + 1}": (i, j) for i, line in enumerate(lines) for j in range(len(line))}
    if len({line[0] for line in lines}) > 1:
        return {f"layer {i + 1}": (i, 0) for i in range(len(lines))}
    return {"all layers and heads": (0, 0)}


def _describe(record: Record) -> str:
    encoder = record["encoder"]
    size = f"{encoder['kind']}, {encoder['layers']} layers, {encoder['heads']} heads"
    return f"{record['settings']['model']} ({size}) for a text of {len(record['tokens']):,} tokens"


def _panels(
    lines: int, across: int, panel: tuple[float, float], below: float, title: str, gap: float = _GAP
) -> tuple[Figure, Any]:
    """A figure with a grid of axes of that size."""
    width = _LEFT + across * (panel[0] + gap) - gap + _RIGHT
    text = textwrap.wrap(title, round(_PER_INCH * width))
    above = _TOP + 0.15 * len(text)
    height = above + lines * (panel[1] + gap) - gap + below
    canvas, grid = plt.subplots(lines, across, figsize=(width, height), squeeze=False)
    canvas.subplots_adjust(
        left=_LEFT / width,
        right=1 - _RIGHT / width,
        top=1 - above / height,
        bottom=below / height,
        wspace=gap / panel[0],
        hspace=gap / panel[1],
    )
    canvas.suptitle("\n".join(text), fontsize=9, y=1 - 0.12 / height, va="top", parse_math=False)
    return canvas, grid


def _heat_map(axes: Axes, values: Floats, colours: str, scale: Normalize) -> AxesImage:
    axes.set_xticks([])
    axes.set_yticks([])
    return axes.imshow(values, cmap=colours, norm=scale, aspect="auto")


def _name_tokens(axis: Axis, tokens: Sequence[str], rotation: int = 0) -> None:
    if len(tokens) <= _NAMED:
        names = [_printable(token) for token in tokens]
        axis.set_ticks(range(len(tokens)), names, fontsize=7, parse_math=False)
        axis.set_tick_params(length=0, rotation=rotation)


def _printable(token: str) -> str:
    """A token as a label; SVG cannot contain control characters."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in token.replace(" ", "▁"))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _draw_scale(canvas: Figure, image: AxesImage) -> None:
    width, height = canvas.get_size_inches()
    panels = canvas.subplotpars
    size = min(3.0 / height, panels.top - panels.bottom)
    place = (1 - 0.75 / width, (panels.top + panels.bottom - size) / 2, 0.12 / width, size)
    canvas.colorbar(image, cax=canvas.add_axes(place)).ax.tick_params(labelsize=7)
