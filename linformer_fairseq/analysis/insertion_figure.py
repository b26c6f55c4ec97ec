"""What `linformer analyse insertion` measured, as a figure."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

from linformer_fairseq.analysis.insertion import PLACES
from linformer_fairseq.analysis.insertion_report import FIGURE, WHERE
from linformer_fairseq.analysis.record import Record
from linformer_fairseq.results.drawing import FONT, save_both

_PANELS = {"accuracy": "accuracy", "changed": "changed classes"}
_STYLES = (("o-", "#0072b2"), ("s--", "#d55e00"))


def draw_insertion(record: Record, folder: Path) -> list[Path]:
    """Accuracy, and share of changed classes, by the number of inserted tokens.

    Args:
        record: of `insertion`.
        folder: for ``insertion``, as .png and .svg.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    with matplotlib.rc_context({**FONT, "svg.hashsalt": FIGURE}):
        canvas, grid = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
        shifts = [row["shift"] for row in record["shifts"]]
        for axes, (what, title) in zip(grid, _PANELS.items(), strict=True):
            before = 100 * record["accuracy"] if what == "accuracy" else 0.0
            for place, (style, colour) in zip(PLACES, _STYLES, strict=True):
                values = [100 * row[place][what] for row in record["shifts"]]
                axes.plot([0, *shifts], [before, *values], style, color=colour, label=WHERE[place])
            axes.set_xscale("symlog", base=2, linthresh=1)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.set(xlabel="s, inserted tokens", title=title, ylim=(0, 100))
        grid[0].set_ylabel("%")
        grid[1].legend(frameon=False)
        settings = record["settings"]
        title = f"{settings['model']} on {settings['data']}: {record['examples']:,} examples"
        canvas.suptitle(title, parse_math=False)
        return save_both(canvas, folder / FIGURE)
