"""The figure: validation perplexity against updates, with a curve for each model."""

from pathlib import Path

from matplotlib import pyplot as plt

from linformer_fairseq.results.drawing import save
from linformer_fairseq.results.perplexity_axes import label_axes

COLOURS = ("#0b6e99", "#d1495b")


def plot_perplexity(curves: dict[str, dict[int, float]], path: Path) -> None:
    """Draw the curves to a PNG.

    Args:
        curves: perplexity by update, for the names of two models; update 0 is the untrained model.
        path: the file to write.
    """
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for colour, (name, curve) in zip(COLOURS, curves.items(), strict=True):
        updates = sorted(curve)
        axes.plot(updates, [curve[u] for u in updates], "o-", color=colour, markersize=3.5, label=name)
    label_axes(axes, [perplexity for curve in curves.values() for perplexity in curve.values()])
    axes.set_xlabel("pretraining updates")
    axes.set_ylabel("validation perplexity of masked tokens (log scale)")
    axes.legend(frameon=False)
    save(figure, path)
    plt.close(figure)
