"""Inputs longer than n: truncated or divided into windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linformer_fairseq.files.cuts import CUTS, WINDOWS
from linformer_fairseq.files.cutting import positions, shares, smallest
from linformer_fairseq.prediction.fitting import Fitted, Frame, fit

FRAME = Frame(0, 2)


def ids(length: int, first: int = 100) -> np.ndarray:
    return np.arange(first, first + length)


def rows(fitted: Fitted) -> list[list[int]]:
    return [row.tolist() for row in fitted.rows]


def test_special_tokens_are_those_of_the_training() -> None:
    pair = [ids(2), ids(1, 200)]
    assert rows(fit(pair, FRAME, 10, "head")) == [[0, 100, 101, 2, 2, 200, 2]]
    assert rows(fit(pair, Frame(None, None), 10, "head")) == [[100, 101, 2, 200, 2]]
    assert rows(fit([ids(0)], FRAME, 10, "head")) == [[0, 2]]


@pytest.mark.parametrize(("how", "kept"), [("head", [100, 101, 102, 103]), ("tail", [106, 107, 108, 109])])
def test_a_long_text_is_truncated(how: str, kept: list[int]) -> None:
    fitted = fit([ids(10)], FRAME, 6, how)
    assert rows(fitted) == [[0, *kept, 2]] and fitted.long
    assert not fit([ids(4)], FRAME, 6, how).long


@pytest.mark.parametrize(("texts", "limit"), [(1, 2), (2, 5)])
@pytest.mark.parametrize("how", CUTS)
def test_a_model_without_room_for_a_token_is_refused(texts: int, limit: int, how: str) -> None:
    with pytest.raises(ValueError, match=f"inputs of {limit} tokens .* at least {limit + 1}$"):
        fit([ids(3)] * texts, FRAME, limit, how)


def test_windows_are_full_and_spread_evenly() -> None:
    fitted = fit([ids(10)], FRAME, 6, WINDOWS)
    assert rows(fitted) == [[0, *range(start, start + 4), 2] for start in (100, 103, 106)] and fitted.long
    assert rows(fit([ids(8)], FRAME, 6, WINDOWS)) == [[0, *range(s, s + 4), 2] for s in (100, 104)]


def test_windows_of_a_pair_move_over_the_longer_text() -> None:
    question, document = ids(2), ids(9, 200)
    found = rows(fit([question, document], FRAME, 10, WINDOWS))
    assert found == [[0, 100, 101, 2, 2, *range(s, s + 4), 2] for s in (200, 202, 205)]
    swapped = rows(fit([document, question], FRAME, 10, WINDOWS))
    assert swapped == [[0, *range(s, s + 4), 2, 2, 100, 101, 2] for s in (200, 202, 205)]


def test_the_other_text_of_a_pair_keeps_its_beginning() -> None:
    question, document = ids(7), ids(9, 200)
    found = rows(fit([question, document], FRAME, 10, WINDOWS))
    assert found == [[0, 100, 101, 102, 2, 2, *range(s, s + 3), 2] for s in (200, 203, 206)]
    swapped = rows(fit([document, question], FRAME, 10, WINDOWS))
    assert swapped == [[0, *range(s, s + 3), 2, 2, 100, 101, 102, 2] for s in (200, 203, 206)]


def test_of_two_equal_texts_nothing_is_left_out() -> None:
    found = rows(fit([ids(4), ids(4, 200)], FRAME, 11, WINDOWS))  # one token too long
    assert found == [[0, 100, 101, 102, 103, 2, 2, *range(s, s + 3), 2] for s in (200, 201)]


@given(st.lists(st.integers(0, 80), min_size=1, max_size=2), st.integers(0, 30), st.sampled_from(CUTS))
def test_whatever_the_lengths_everything_fits(lengths: list[int], more: int, how: str) -> None:
    limit = smallest(len(lengths)) + more
    texts = [ids(length, 100 * (1 + number)) for number, length in enumerate(lengths)]
    fitted = fit(texts, FRAME, limit, how)
    assert all(len(row) <= limit for row in fitted.rows)
    assert fitted.long == (positions(lengths) > limit)
    if how == WINDOWS:
        found = {token for row in fitted.rows for token in row.tolist()}
        missing = [sum(token not in found for token in text.tolist()) for text in texts]
        unfit = [length - room for length, room in zip(lengths, shares(lengths, limit), strict=True)]
        assert sum(missing) == (min(unfit) if len(texts) == 2 else 0)
