"""What is measured beside inference, for the pages: training, and what looks closer than at whole models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.efficiency import ablation, optimizer, padding, profile, tables
from benchmarks.efficiency.store import read
from benchmarks.efficiency.tables import Result

TABLES: dict[str, Callable[[Result], list[str]]] = {
    "training": tables.training,
    "ablation": ablation.table,
    "profile": profile.table,
    "optimizer": optimizer.table,
    "padding": padding.table,
}
"""Of a file of results, by its kind."""


def of_kind(kind: str, results: Path) -> list[str]:
    """The tables of all files of a kind; no lines if nothing was measured.

    Args:
        kind: of TABLES.
        results: folder of all results.
    """
    files = sorted((results / "efficiency").glob(f"{kind}*.json"))
    return [line for path in files for line in [*TABLES[kind](read(path)), ""]]


PARTS: dict[str, Callable[[Path], list[str]]] = {kind: partial(of_kind, kind) for kind in TABLES}
"""By the name of their markers in a page."""
