"""Axes of validation perplexity, with a logarithmic scale that is labelled in plain numbers."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

# Ticks within a power of ten, from few to many.
_STEPS = (
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(tuple(1 + step * i for i in range(round(9 / step))) for step in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)),
)
_ENOUGH = 4
_MOST = 1e8
"""Of a model that diverged, what is above has no place on the axis."""


def label_axes(axes: Axes, perplexities: Iterable[float]) -> None:
    """Set scale, limits, ticks and grid of ``axes`` for these perplexities (at least one)."""
    values = [min(value, _MOST) for value in perplexities]
    low, high = min(values), max(values)
    margin = max(1.02, (high / low) ** 0.05)
    ticks: list[float] = []
    for steps in _STEPS:
        ticks = [m * 10**e for e in range(9) for m in steps if low / margin <= m * 10**e <= high * margin]
        if len(ticks) >= _ENOUGH:
            break
    axes.set_yscale("log")
    axes.set_ylim(low / margin, high * margin)
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.5g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
