"""Figures of curves of validation perplexity, as they are given to `drawing`."""

from __future__ import annotations

from dataclasses import dataclass

from linformer_fairseq.results.rows import Row

FIRST_SHARE = 0.2
"""The first fraction of the updates, in which curves may exceed the axes."""


@dataclass(frozen=True)
class Curve:
    """One run."""

    label: str | None
    """None for further seeds of a model, which have the style of the first."""
    model: str
    is_baseline: bool
    points: list[tuple[float, float]]
    """Pairs of x value and validation perplexity; at least one."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    curves: list[Curve]
    along: str = "updates"
    """Label of the horizontal axis."""


@dataclass(frozen=True)
class Figure:
    """All runs of one scale; runs of another scale are in another figure."""

    stem: str
    """Name of its files, without the extension."""
    title: str
    caption: str
    panels: list[Panel]
    one_scale: bool = False
    """Whether the panels have the same vertical axis."""


def diverged(row: Row) -> str:
    """A remark on the last finite value, if the last validation was not finite."""
    return f" at {points(row)[-1][0]:,.0f}, then not finite" if row.curve and row.curve[-1][1] is None else ""


def points(row: Row) -> list[tuple[float, float]]:
    """Updates and validation perplexity, if it is finite."""
    return [(update, perplexity) for update, perplexity in row.curve if update is not None and perplexity is not None]
