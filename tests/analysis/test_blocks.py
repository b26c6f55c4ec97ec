"""Blocks are full, in the order of the text, and chosen by the seed."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from linformer_fairseq.analysis.blocks import Chosen, check_length, choose_blocks
from linformer_fairseq.analysis.encoder import Encoder, See
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction.inputs import open_source


class Numbers(Encoder):
    """Its tokens are the numbers in a text."""

    max_positions, first, last = 10, 1000, 2000

    def encode(self, text: str) -> Ids:
        return np.array([int(word) for word in text.split()])

    def encode_masked(self, text: str) -> Ids:
        raise AssertionError

    def token(self, symbol: int) -> str:
        raise AssertionError

    def attend(self, tokens: Tensor, see: See) -> None:
        raise AssertionError

    def untrained(self, seed: int) -> Encoder:
        raise AssertionError


def choose(path: Path, length: int, count: int, seed: int = 1) -> Chosen:
    return choose_blocks(open_source(path, io.BytesIO(), None, []), Numbers(), length, count, seed)


def test_all_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 2 3\n\n4 5\n\xff\n6 7 8 9 10\n")
    rows, available = choose(path, 5, 3)
    assert rows.tolist() == [[1000, 1, 2, 3, 2000], [1000, 4, 5, 2000, 6], [1000, 7, 8, 9, 10]]
    assert available == 3 and "2 empty or unreadable lines" in capsys.readouterr().err


def test_every_block_is_chosen_as_often(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(map(str, range(10))))
    counts: Counter[int] = Counter()
    for seed in range(400):
        rows, available = choose(path, 3, 4, seed)
        assert available == 10 and len({row[1] for row in rows}) == 4
        counts.update(int(row[1]) for row in rows)
    assert set(counts) == set(range(10)) and all(abs(count - 160) < 50 for count in counts.values())
    assert choose(path, 3, 4, 7).rows.tolist() == choose(path, 3, 4, 7).rows.tolist()


def test_too_little_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 2 3 4 5")
    with pytest.raises(UserError, match="makes 1 blocks of 5 tokens, but --sentences is 2"):
        choose(path, 5, 2)
    with pytest.raises(UserError, match="makes 0 blocks"):
        choose(path, 10, 2)
    for nothing in ("", "\n \n"):
        path.write_text(nothing)
        with pytest.raises(UserError, match="no text"):
            choose(path, 5, 2)


def test_the_length_is_one_that_the_model_takes() -> None:
    assert check_length(Numbers(), None) == 10 and check_length(Numbers(), 2) == 2
    for length in (1, 11):
        with pytest.raises(UserError, match=f"--length {length}: expected 2 to 10"):
            check_length(Numbers(), length)
