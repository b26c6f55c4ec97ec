"""Computing a stream of inputs in batches of similar length, with results in the order of the stream.

Inputs are collected until they have several batches' worth of tokens, sorted by length, computed in batches and put
back into order. Memory therefore does not depend on the length of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.prediction.items import kept
from linformer_fairseq.prediction.options import BATCH_TOKENS


class Encoded(Protocol):
    """A text as the model gets it."""

    @property
    def rows(self) -> list[Ids]:
        """The text, (T,), or its windows."""


_ERROR = 16
"""Tokens for which an invalid text counts: of many in a row, the first are reported after some thousand."""
_SHORTEST, _SMALLEST = 0.75, 32
"""A row that is shorter than this share of the longest begins a new batch, which saves padding, if the batch has at
least one _SMALLEST-th of its tokens."""

T = TypeVar("T")
E = TypeVar("E", bound=Encoded)
R = TypeVar("R")


class Batching(NamedTuple):
    """Sizes of batches and of what is sorted together."""

    tokens: int = BATCH_TOKENS
    """Largest number of tokens of a batch, with padding; a longer input is a batch by itself."""
    batches: int = 16
    """Inputs with about so many batches' tokens are sorted together, and their results are held in memory."""


def compute_in_order(
    texts: Iterable[T | ValueError],
    encode: Callable[[T], E],
    compute: Callable[[list[Ids]], Sequence[R]],
    batching: Batching,
) -> Iterator[tuple[E, list[R]] | ValueError]:
    """Compute every text.

    Args:
        texts: the texts. An error in place of a text is passed on in its place.
        encode: makes the rows of a text. The text itself is not kept: it can be much longer than its rows.
        compute: makes a result for each row of a batch.
        batching: see `Batching`.

    Yields:
        For each text, in order: what ``encode`` made of it and the results of its rows; or the ValueError that
        ``encode`` raised.

    Raises:
        ValueError: ``texts`` is a single text, or a batch has no room for a token.
    """
    if isinstance(texts, str):
        raise ValueError(f"expected a list of texts, found a single one: [{texts[:60]!r}]")
    if batching.tokens < 1:
        raise ValueError(f"batch_tokens={batching.tokens}: expected at least 1")
    for pool in _pools(texts, encode, batching.tokens * batching.batches):
        rows = [row for entry in pool if not isinstance(entry, ValueError) for row in entry.rows]
        results = iter(_in_batches(rows, compute, batching.tokens))
        for entry in pool:
            if isinstance(entry, ValueError):
                yield entry
            else:
                yield entry, [next(results) for _ in entry.rows]


def _pools(texts: Iterable[T | ValueError], encode: Callable[[T], E], tokens: int) -> Iterator[list[E | ValueError]]:
    pool: list[E | ValueError] = []
    held = 0
    for text in texts:
        entry = text if isinstance(text, ValueError) else _encoded(text, encode)
        pool.append(entry)
        held += _ERROR if isinstance(entry, ValueError) else sum(map(len, entry.rows))
        if held >= tokens:
            yield pool
            pool, held = [], 0
    if pool:
        yield pool


def _encoded(text: T, encode: Callable[[T], E]) -> E | ValueError:
    try:
        return encode(text)
    except ValueError as error:
        return kept(error)


def _in_batches(rows: list[Ids], compute: Callable[[list[Ids]], Sequence[R]], tokens: int) -> list[R]:
    """The results of all rows, in their order; the longest rows are computed first, so that a lack of memory shows."""
    results: dict[int, R] = {}
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    start = 0
    while start < len(order):
        end = start + _batch_size([len(rows[row]) for row in order[start : start + tokens]], tokens)
        batch = order[start:end]
        results.update(zip(batch, compute([rows[row] for row in batch]), strict=True))
        start = end
    return [results[row] for row in range(len(rows))]


def _batch_size(lengths: Sequence[int], tokens: int) -> int:
    """How many of the rows, longest first, make the next batch."""
    longest = lengths[0]
    most = min(len(lengths), max(1, tokens // longest))
    least = tokens // _SMALLEST // longest
    return next((size for size in range(max(1, least), most) if lengths[size] < _SHORTEST * longest), most)
