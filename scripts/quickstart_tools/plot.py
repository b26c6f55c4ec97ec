"""The figure: validation perplexity against updates, with a curve for each model."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.results.perplexity_axes import label_axes

COLOURS = ("#0b6e99", "#d1495b", "#5c8001", "#7d5ba6")


def plot_perplexity(curves: dict[str, dict[int, float]], path: Path) -> None:
    """Draw the curves to a PNG.

    Args:
        curves: perplexity by update, for each model's name; update 0 is the untrained model.
        path: the file to write.
    """
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
        updates = sorted(curve)
        axes.plot(updates, [curve[u] for u in updates], "o-", color=colour, markersize=3.5, label=name)
    label_axes(axes, [perplexity for curve in curves.values() for perplexity in curve.values()])
    axes.set_xlabel("pretraining updates")
    axes.set_ylabel("validation perplexity of masked tokens (log scale)")
    axes.legend(frameon=False)
    with atomic_open(path, "wb") as stream:
        figure.savefig(stream, format="png", dpi=150)
    plt.close(figure)
