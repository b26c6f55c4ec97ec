"""Sums over blocks that a stopped run goes on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linformer_fairseq.analysis.sums import Sums


class Interrupting:
    """A value whose addition is interrupted."""

    def __radd__(self, other: Any) -> Any:
        raise KeyboardInterrupt

    __array_ufunc__ = None


def test_an_interrupt_leaves_all_parts_of_a_block_or_none(tmp_path: Path) -> None:
    path = tmp_path / "sums.npz"
    sums = Sums(path, {"seed": 1}, np.zeros((2, 4), dtype=np.int64), {})
    sums.add("x", {"a": np.array([2.0]), "b": np.array([4.0])}, 2)
    with pytest.raises(KeyboardInterrupt):
        sums.add("x", {"a": np.array([3.0]), "b": Interrupting()}, 1)  # type: ignore[dict-item]
    sums.write()
    found = Sums.read(path)
    assert (found.count("x"), found.mean("x", "a"), found.mean("x", "b")) == (2, [1.0], [2.0])
    found.add("x", {"a": np.array([4.0]), "b": np.array([5.0])}, 1)
    assert (found.count("x"), found.mean("x", "a"), found.mean("x", "b")) == (3, [2.0], [3.0])
