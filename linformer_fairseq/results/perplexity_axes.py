"""Axes of validation perplexity over updates, with a logarithmic scale that is labelled in plain numbers."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, ScalarFormatter, StrMethodFormatter


def label_axes(axes: Axes, perplexities: Iterable[float]) -> None:
    """Scale, ticks and grid of ``axes`` whose curves have these perplexities."""
    values = list(perplexities)
    low, high = min(values), max(values)
    axes.set_yscale("log")
    ticks = [m * 10**e for e in range(8) for m in _steps(high / low) if low / 1.6 <= m * 10**e <= high * 1.6]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _steps(ratio: float) -> tuple[float, ...]:
    """Ticks within a power of ten: the closer the curves, the more."""
    if ratio > 10:
        return (1, 2, 5)
    return (1, 1.5, 2, 3, 4, 5, 6, 8) if ratio > 2.5 else tuple(n / 10 for n in range(10, 100, 2 if ratio > 1.5 else 1))
