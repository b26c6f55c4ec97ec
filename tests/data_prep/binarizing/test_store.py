"""Counts of a dataset that is put together from parts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data_prep.binarizing.encode import Encoded
from data_prep.binarizing.store import Store

TEXT, EMPTY = 3, 1


def part(*sizes: int) -> Encoded:
    """Items of these numbers of tokens."""
    tokens = np.full(sum(sizes), 7, dtype=np.uint16)
    return Encoded(tokens, np.array(sizes, dtype=np.int32), 0)


@pytest.mark.parametrize(
    ("parts", "documents"),
    [
        ([(part(TEXT), False), (part(TEXT), False)], 2),
        ([(part(TEXT), False), (part(TEXT), True)], 1),
        ([(part(TEXT, EMPTY, TEXT), False), (part(TEXT, EMPTY), True)], 2),
        # cut behind a line of blanks, so the next part begins a document, though there is no empty line between
        ([(part(TEXT, EMPTY), False), (part(TEXT), True)], 2),
        ([(part(EMPTY), False), (part(EMPTY), True), (part(TEXT), True)], 1),
    ],
)
def test_documents_are_counted_across_parts(tmp_path: Path, parts: list[tuple[Encoded, bool]], documents: int) -> None:
    step: Any = SimpleNamespace(outputs=tmp_path / "out", work=tmp_path / "work")
    (tmp_path / "work").mkdir()
    for encoded, continues in parts:
        store = Store(step, ["train"], np.dtype(np.uint16))  # each time as after an interruption
        store.append("train", encoded, continues, text_bytes=1)
    assert store.counts["train"]["documents"] == documents
