"""Computing a stream of inputs in batches of similar length, with results in the order of the stream.

Inputs are collected until they have several batches' worth of tokens, sorted by length, computed in batches and put
back into order. Memory therefore does not depend on the length of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.prediction.fitting import Fitted

T = TypeVar("T")
R = TypeVar("R")

BATCH_TOKENS = 8192
"""Tokens of a batch, with padding."""


class Batching(NamedTuple):
    """Sizes of batches and of what is sorted together."""

    tokens: int = BATCH_TOKENS
    """Largest number of tokens of a batch, with padding; a longer input is a batch by itself."""
    batches: int = 16
    """Inputs with about so many batches' tokens are sorted together, and their results are held in memory."""


def compute_in_order(
    texts: Iterable[T | ValueError],
    encode: Callable[[T], Fitted],
    compute: Callable[[list[Ids]], Sequence[R]],
    batching: Batching,
) -> Iterator[tuple[T, Fitted, list[R]] | ValueError]:
    """Compute every text.

    Args:
        texts: the texts. An error in place of a text is passed on in its place.
        encode: makes the rows of a text.
        compute: makes a result for each row of a batch.
        batching: see `Batching`.

    Yields:
        For each text, in order: the text, its rows and their results; or the ValueError that ``encode`` raised.
    """
    for pool in _pools(texts, encode, batching.tokens * batching.batches):
        rows = [row for entry in pool if not isinstance(entry, ValueError) for row in entry[1].rows]
        results = iter(_in_batches(rows, compute, batching.tokens))
        for entry in pool:
            if isinstance(entry, ValueError):
                yield entry
            else:
                text, fitted = entry
                yield text, fitted, [next(results) for _ in fitted.rows]


def _pools(
    texts: Iterable[T | ValueError], encode: Callable[[T], Fitted], tokens: int
) -> Iterator[list[tuple[T, Fitted] | ValueError]]:
    pool: list[tuple[T, Fitted] | ValueError] = []
    held = 0
    for text in texts:
        if isinstance(text, ValueError):
            pool.append(text)
            held += 1
        else:
            try:
                fitted = encode(text)
            except ValueError as error:
                pool.append(error)
                held += 1
            else:
                pool.append((text, fitted))
                held += sum(map(len, fitted.rows))
        if held >= tokens:
            yield pool
            pool, held = [], 0
    if pool:
        yield pool


def _in_batches(rows: list[Ids], compute: Callable[[list[Ids]], Sequence[R]], tokens: int) -> list[R]:
    """The results of all rows, in their order; the longest rows are computed first, so that a lack of memory shows."""
    results: dict[int, R] = {}
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    start = 0
    while start < len(order):
        size = max(1, tokens // len(rows[order[start]]))
        batch = order[start : start + size]
        results.update(zip(batch, compute([rows[row] for row in batch]), strict=True))
        start += size
    return [results[row] for row in range(len(rows))]
