"""The metrics of the four tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Classes = npt.NDArray[np.int64]
"""Class numbers, (examples,)."""


def accuracy(predicted: Classes, targets: Classes) -> float:
    """Share of the examples that are right, in percent."""
    return 100.0 * float((predicted == targets).mean())


def f1(predicted: Classes, targets: Classes, positive: int) -> float:
    """Harmonic mean of precision and recall of one class, in percent; 0 where nothing of it was found."""
    hits = int(((predicted == positive) & (targets == positive)).sum())
    total = int((predicted == positive).sum()) + int((targets == positive).sum())
    return 200.0 * hits / total if total else 0.0


def majority(targets: Classes) -> tuple[int, float]:
    """The most frequent class, and the accuracy in percent of always answering it."""
    counts = np.bincount(targets)
    return int(counts.argmax()), 100.0 * float(counts.max()) / len(targets)
