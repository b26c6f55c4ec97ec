"""What is predicted for a text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Classification(NamedTuple):
    """The class of a text."""

    label: str
    """Name of the most probable class."""
    probability: float
    """Its probability."""
    probabilities: npt.NDArray[np.float32]
    """Those of all classes, (classes,)."""
    windows: int
    """The number of windows that they are means of; 1: no windows."""
    long: bool
    """Whether the text is longer than n, and was truncated or divided into windows."""


class Embedding(NamedTuple):
    """The vectors of a text."""

    vectors: npt.NDArray[np.float32]
    """(C,), or (T, C) for vectors of tokens."""
    tokens: list[str] | None
    """The T tokens, for vectors of tokens."""
    windows: int
    """As in `Classification`."""
    long: bool
    """As in `Classification`."""
