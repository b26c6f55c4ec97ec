"""Batches of similar length from a bounded part of the stream, and results in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, Never

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.prediction.stream import Batching, compute_in_order


class Rows(NamedTuple):
    rows: list[Ids]


def encode(lengths: list[int]) -> Rows:
    if not lengths:
        raise ValueError("nothing in it")
    return Rows([np.full(length, length) for length in lengths])


def sums(rows: list[Ids]) -> list[int]:
    return [int(row.sum()) for row in rows]


def test_of_many_errors_the_first_are_there_before_all_are_read() -> None:
    texts = iter([ValueError("no text")] * 1000)
    next(compute_in_order(texts, encode, sums, Batching(20, 4)))
    assert len(list(texts)) > 900


@given(st.lists(st.lists(st.integers(1, 20), max_size=3), max_size=40), st.integers(1, 60), st.integers(1, 4))
def test_results_come_in_order(texts: list[list[int]], tokens: int, batches: int) -> None:
    found = list(compute_in_order(texts, encode, sums, Batching(tokens, batches)))
    assert len(found) == len(texts)
    for lengths, entry in zip(texts, found, strict=True):
        if lengths:
            assert entry[1] == [length * length for length in lengths]
        else:
            assert str(entry) == "nothing in it"


def test_batches_have_similar_lengths_and_no_more_tokens_than_allowed() -> None:
    seen: list[list[int]] = []

    def compute(rows: list[Ids]) -> list[int]:
        seen.append([len(row) for row in rows])
        return sums(rows)

    texts = [[1 + number * 7 % 10] for number in range(40)]
    list(compute_in_order([*texts, [50]], encode, compute, Batching(20, 100)))
    assert seen[0] == [50], "longer than a batch: by itself"
    assert all(len(batch) * max(batch) <= 20 for batch in seen[1:])
    flat = [length for batch in seen for length in batch]
    assert flat == sorted(flat, reverse=True)


def test_a_much_shorter_text_begins_a_new_batch() -> None:
    seen: list[list[int]] = []

    def compute(rows: list[Ids]) -> list[int]:
        seen.append([len(row) for row in rows])
        return sums(rows)

    list(compute_in_order([[100], [80], [74], [10], [9], [1]], encode, compute, Batching(640)))
    assert seen == [[100, 80], [74], [10, 9], [1]]
    seen.clear()
    list(compute_in_order([[10], [5], [5]], encode, compute, Batching(1000)))
    assert seen == [[10, 5, 5]], "too few tokens for two"


def test_no_more_is_read_than_a_few_batches() -> None:
    read = 0

    def texts() -> Iterator[list[int]]:
        nonlocal read
        for read in range(1, 1001):  # noqa: B007 (counted from outside)
            yield [10]

    found = compute_in_order(texts(), encode, sums, Batching(20, 4))
    next(found)
    assert read == 8
    assert len(list(found)) == 999


def test_an_error_among_the_texts_keeps_its_place() -> None:
    error = ValueError("line 2")
    first, second, third = compute_in_order([[1], error, [3]], encode, sums, Batching())
    assert (first[1], second, third[1]) == ([1], error, [9])


def test_an_error_of_the_model_is_no_error_of_a_text() -> None:
    def fail(rows: list[Ids]) -> list[int]:
        raise ValueError("of the model")

    with pytest.raises(ValueError, match="of the model"):
        next(compute_in_order([[1]], encode, fail, Batching()))


def test_an_error_is_kept_without_its_text() -> None:
    """Frames of a traceback hold all that they worked on."""

    def fail(_: str) -> Never:
        try:
            json.loads("{")
        except ValueError:
            raise ValueError("no") from None

    (error,) = compute_in_order(["text"], fail, sums, Batching())
    assert isinstance(error, ValueError) and error.args == ("no",)
    assert error.__traceback__ is error.__context__ is error.__cause__ is None
