"""What the figures of the analyses have in common: names, font, and both formats of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from linformer_fairseq.analysis.record import Record
from linformer_fairseq.analysis.spectrum import projected_rows
from linformer_fairseq.results.drawing import save

FONT: dict[Any, Any] = {"font.size": 9, "font.family": "DejaVu Sans"}


def matrix_name(record: Record) -> str:
    """P, or P-bar of a Linformer."""
    return "P" if record["encoder"]["is_dense"] else "P̄"


def describe(record: Record) -> str:
    """The model, the length of the blocks and what they are of."""
    settings, encoder = record["settings"], record["encoder"]
    size = f"{encoder['layers']} layers, {encoder['heads']} heads"
    found = [f"{rows:,}" for rows in projected_rows(record)]
    rows = "" if encoder["is_dense"] else f" ({' to '.join([*found[:1], *found[1:][-1:]])} projected rows)"
    blocks = f"{settings['sentences']:,} blocks of {settings['length']:,} tokens{rows} of {settings['data']}"
    return f"{settings['model']} ({encoder['kind']}, {size}), {blocks}"


def save_both(canvas: Any, stem: Path) -> list[Path]:
    """Write a figure as .png and .svg, and close it; returns the files.

    Raises:
        OSError: one cannot be written.
    """
    try:
        return [save(canvas, stem.with_name(stem.name + ending)) for ending in (".png", ".svg")]
    finally:
        plt.close(canvas)
