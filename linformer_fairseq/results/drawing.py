"""Draws figures as PNG and SVG; equal rows give equal files."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.results.curves import FIRST_SHARE, Figure, Panel
from linformer_fairseq.results.perplexity_axes import label_axes

FONT: dict[Any, Any] = {"font.size": 9, "font.family": "DejaVu Sans"}
# Colours that colour-blind readers can distinguish (Okabe and Ito), each with its own marker.
_LINFORMERS = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#e69f00", "v"),
    ("#56b4e9", "P"),
)
_BASELINES = (("#000000", "x"), ("#777777", "+"), ("#444444", "1"), ("#aaaaaa", "2"))
_LINES = ("-", ":", "-.")
"""With more models than colours, the colours are used again with the next kind of line; baselines are dashed."""
_CAPTION_WIDTH = 150
"""Characters per line."""
_LEGEND_WIDTH = 76
"""Likewise; a longer line would be wider than the panel."""


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure into ``folder`` as PNG and as SVG; returns their paths.

    Raises:
        OSError: a file cannot be written.
    """
    # Without a fixed salt the ids in an SVG are random. A $ in the name of a run is no mathematics.
    with matplotlib.rc_context({**FONT, "svg.hashsalt": figure.stem, "text.parse_math": False}):
        lines = math.ceil(len(figure.panels) / 2)
        most = max(_legend_lines(panel) for panel in figure.panels)
        height = 4.5 + 0.17 * most  # inches, for the axes and a legend below them, where it covers no curve
        canvas, grid = plt.subplots(lines, 2, figsize=(12, height * lines), layout="constrained")
        canvas.suptitle(figure.title, fontsize=11)
        for axes, panel in zip(grid.flat, figure.panels, strict=True):
            _draw_panel(axes, panel, figure.panels if figure.one_scale else [panel])
        canvas.supxlabel("\n".join(textwrap.wrap(figure.caption, _CAPTION_WIDTH)), fontsize=8)
        return save_both(canvas, folder / figure.stem)


def _draw_panel(axes: Axes, panel: Panel, scale: Sequence[Panel]) -> None:
    """Draw the curves of a panel, on a vertical axis that fits those of ``scale``."""
    axes.set_title(panel.title, fontsize=10)
    if not panel.curves:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no runs", ha="center", va="center", fontsize=14, color="#777777", transform=axes.transAxes)
        return
    styles = {
        True: itertools.cycle((*style, "--") for style in _BASELINES),
        False: itertools.cycle((*style, line) for line in _LINES for style in _LINFORMERS),
    }
    style: dict[str, tuple[str, str, str]] = {}
    for number, curve in enumerate(panel.curves):
        if curve.model not in style:
            style[curve.model] = next(styles[curve.is_baseline])
        colour, mark, line = style[curve.model]
        marks = max(1, len(curve.points) // 10)
        axes.plot(
            *zip(*curve.points, strict=True),
            color=colour,
            marker=mark,
            markersize=4,
            markevery=(number % marks, marks),  # so that markers of overlapping curves do not coincide
            linewidth=1.2,
            linestyle=line,
            label=textwrap.fill(curve.label, _LEGEND_WIDTH) if curve.label else None,
        )
    label_axes(axes, [perplexity for each in scale for perplexity in _shown(each)])
    axes.set_xlabel(panel.along)
    axes.set_ylabel("validation perplexity")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15))


def _legend_lines(panel: Panel) -> int:
    return sum(len(textwrap.wrap(curve.label, _LEGEND_WIDTH)) for curve in panel.curves if curve.label)


def _shown(panel: Panel) -> list[float]:
    """Perplexities that determine the limits: the initial decrease would compress the rest."""
    last = max((update for curve in panel.curves for update, _ in curve.points), default=0.0)
    return [p for curve in panel.curves for update, p in curve.points if update >= FIRST_SHARE * last]


def save_both(canvas: Canvas, stem: Path) -> list[Path]:
    """Write a figure as .png and .svg, and close it; returns the files.

    Raises:
        OSError: one cannot be written.
    """
    try:
        return [save(canvas, stem.with_name(stem.name + ending)) for ending in (".png", ".svg")]
    finally:
        plt.close(canvas)


def save(canvas: Canvas, path: Path) -> Path:
    """Write a figure to a file, as PNG or SVG by its extension; returns ``path``.

    Equal figures give equal files, if rcParams["svg.hashsalt"] is set: neither date nor version is written.

    Raises:
        OSError: it cannot be written.
    """
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with atomic_open(path, "wb") as stream:
        canvas.savefig(stream, format=path.suffix[1:], dpi=130, metadata=metadata)
    return path
