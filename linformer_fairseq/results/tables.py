"""Tables of results as text, and the form of several runs in one cell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table as text; the first row holds the headings."""

    title: str
    rows: list[list[str]]


def spread(values: Sequence[float]) -> str:
    """Such as "74.9 (73.7 to 75.2, 5)": median, minimum, maximum and count; a dash for none."""
    if not values:
        return "-"
    more = f" ({min(values):,.1f} to {max(values):,.1f}, {len(values)})" if len(values) > 1 else ""
    return f"{statistics.median(values):,.1f}{more}"
