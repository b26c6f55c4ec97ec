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
    """Whether the text was too long, and was truncated or divided into windows."""


class AttentionMap(NamedTuple):
    """The attention probabilities of a text, in one head of one layer."""

    tokens: list[str]
    """The T tokens as text, with the space before a word; special ones by their names."""
    probabilities: npt.NDArray[np.float32]
    """P, (T, R): from each token to each projected row. Each row of P sums to 1."""
    window: int | None
    """Projected row i is made of tokens i * window to (i + 1) * window - 1, and with ``kernel_strides`` > 1 also of
    tokens around them; None: of all tokens."""
    long: bool
    """As in `Classification`."""
    parts: int
    """The number of windows that the text was divided into, of which this is the first."""


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
