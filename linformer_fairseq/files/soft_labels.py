"""The soft labels of a task's folder: for each example, a teacher's probabilities of the classes, in NumPy's format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.errors import UserError

SOFT_LABELS = "soft_labels"
"""Their folder in that of the task."""
ROUNDING = 1e-3
"""The sum of the probabilities of an example differs from 1 by less."""
_HINT = "prepare the task again"

Probabilities = npt.NDArray[np.float32]
"""(classes,), or (examples, classes)."""


def soft_labels_of(folder: Path, split: str) -> Path:
    """The file with the soft labels of a split."""
    return folder / SOFT_LABELS / f"{split}.npy"


def stored_soft_labels(path: Path, examples: int, classes: int) -> Probabilities:
    """Read the soft labels of a split, (examples, classes).

    Raises:
        UserError: there are none, the file is damaged or of other examples or classes, or holds no probabilities.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; prepare the task with --soft-labels, or use sentence_prediction")
    expected = (examples, classes)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    stream = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("of another version of NumPy's format")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # it parses the header as Python, and raises many types for one that is not
        raise UserError(f"{path}: damaged ({error}); {_HINT}") from None
    if shape != expected or dtype != np.float32 or by_columns:
        raise UserError(f"{path}: {dtype} {shape}, expected float32 {expected} by rows; {_HINT}")
    numbers = bytearray(stream.read())
    if len(numbers) != 4 * examples * classes:
        raise UserError(f"{path}: damaged ({len(numbers):,} bytes of numbers, and not those of {expected}); {_HINT}")
    found = np.frombuffer(numbers, np.float32).reshape(expected)
    within = ((found >= 0) & (found <= 1 + ROUNDING)).all(axis=1)  # NaN is not
    wrong = ~within | (abs(found.clip(0, 2).sum(axis=1) - 1) >= ROUNDING)
    if wrong.any():
        first = int(wrong.argmax())
        values = found[first].tolist()
        raise UserError(f"{path}, example {first}, from 0: {values}, expected probabilities that sum to 1; {_HINT}")
    return found
