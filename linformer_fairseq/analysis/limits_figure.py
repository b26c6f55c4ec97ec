"""What `linformer analyse limits` measured, as a figure."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

from linformer_fairseq.analysis.limits import PLACES
from linformer_fairseq.analysis.limits_report import FIGURE
from linformer_fairseq.analysis.record import Record
from linformer_fairseq.results.drawing import FONT, save_both

_NAMES = {"accuracy": "accuracy", "change": "change of the features"}


def draw_limits(record: Record, folder: Path) -> list[Path]:
    """Accuracy by the length of the input; accuracy, and change of the features, by the tokens in front of a text.

    Args:
        record: of `limits`.
        folder: for ``limits``, as .png and .svg.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    with matplotlib.rc_context({**FONT, "svg.hashsalt": FIGURE}):
        canvas, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
        lengths = [row["length"] for row in record["lengths"]]
        left.plot(lengths, [100 * row["accuracy"] for row in record["lengths"]], "o-", color="#0072b2")
        left.set_xscale("log", base=2)
        left.set(xlabel="T, tokens of the input", ylabel="%", title="by length")
        left.xaxis.set_major_formatter("{x:,.0f}")
        shifts = [row["shift"] for row in record["shifts"]]
        for place, style in zip(PLACES, ("o-", "s--"), strict=True):
            for what, colour in (("accuracy", "#0072b2"), ("change", "#d55e00")):
                values = [100 * row[place][what] for row in record["shifts"]]
                right.plot(shifts, values, style, color=colour, label=f"{_NAMES[what]}, {place}")
        right.set_xscale("symlog", base=2, linthresh=1)
        right.xaxis.set_major_formatter("{x:,.0f}")
        right.set(xlabel="s, tokens in front of the text", title="by position")
        right.set_ylim(0, max(100, right.get_ylim()[1]))  # features can change by more than their size
        right.legend(frameon=False)
        model, layers = record["settings"]["model"], record["encoder"]["layers"]
        canvas.suptitle(f"{model}, {layers} layers: masked tokens predicted", parse_math=False)
        return save_both(canvas, folder / FIGURE)
