"""Reading all of a memory-mapped dataset with suspicion: its .idx is held against its .bin, its ids against dict.txt.

In chunks: a dataset may be larger than the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.dictionary import EOS, UNK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import Dataset, bin_of, count_documents, idx_of

_ITEMS, _TOKENS = 1 << 18, 1 << 22
"""Items and tokens that are in memory at a time."""


@dataclass
class Counts:
    """Number of items, tokens and unknown words of a dataset."""

    items: int = 0
    tokens: int = 0
    unknown: int = 0
    documents: int | None = None
    """Runs of items between separators (items of </s> alone); None where there is no separator."""
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(33, dtype=np.int64))
    """Items by length without </s>: none, 1, 2-3, 4-7, 8-15, ..."""


def _chunks(dataset: Dataset) -> Iterator[npt.NDArray[np.int64]]:
    """Sizes of some items at a time.

    Raises:
        UserError: sizes or offsets that cannot be, or that another length of .bin belongs to.
    """
    idx, binary = idx_of(dataset.prefix), bin_of(dataset.prefix)
    width, end = dataset.dtype.itemsize, 0
    for first in range(0, dataset.items, _ITEMS):
        sizes = dataset.sizes[first : first + _ITEMS].astype(np.int64)
        if (bad := np.flatnonzero(sizes < 1)).size:
            raise UserError(f"{idx}: item {first + bad[0]:,} has {sizes[bad[0]]} tokens, at least </s> was expected")
        ends = end + np.cumsum(sizes) * width
        wrong = np.flatnonzero(dataset.offsets[first : first + _ITEMS] != ends - sizes * width)
        if wrong.size:
            number, expected = first + int(wrong[0]), int(ends[wrong[0]] - sizes[wrong[0]] * width)
            raise UserError(
                f"{idx}: item {number:,} is said to begin at byte {dataset.offsets[number]:,} of the .bin, but the "
                f"items before it end at byte {expected:,} (elements of type {dataset.dtype})"
            )
        end = int(ends[-1])
        yield sizes
    if (found := binary.stat().st_size) != end:
        raise UserError(
            f"{binary}: {found:,} bytes long, while its .idx needs {end:,}: one of the two is cut off, or of other data"
        )


def check(dataset: Dataset, symbols: int | None) -> Counts:
    """Read all of it.

    Args:
        dataset: from `mmap_dataset.open_dataset`.
        symbols: size of the dictionary, which all ids must be below, with </s> at the end of each item; None where
            there is no dictionary.

    Raises:
        UserError: it is damaged; the message names item and byte.
    """
    for _ in _chunks(dataset):  # all of the index before the first id: a wrong length explains wrong ids
        pass
    counts, documents, inside = Counts(), 0, False
    with bin_of(dataset.prefix).open("rb") as stream:
        for sizes in _chunks(dataset):
            documents += count_documents(sizes, inside)
            inside = bool(sizes[-1] > 1)
            counts.lengths += np.bincount(np.frexp(sizes - 1)[1], minlength=33)
            counts.unknown += _check_ids(dataset, stream, sizes, counts.items, counts.tokens, symbols)
            counts.items += len(sizes)
            counts.tokens += int(sizes.sum())
    if counts.lengths[0]:  # there are separators
        counts.documents = documents
    return counts


def _check_ids(
    dataset: Dataset, stream: Any, sizes: npt.NDArray[np.int64], first_item: int, first_token: int, symbols: int | None
) -> int:
    """Look at the ids of the next items in ``stream``; returns how many are <unk>."""
    binary, ends, unknown = bin_of(dataset.prefix), np.cumsum(sizes), 0
    for start in range(0, int(ends[-1]), _TOKENS):
        ids = np.fromfile(stream, dataset.dtype, min(_TOKENS, int(ends[-1]) - start))
        if symbols is not None and (bad := np.flatnonzero((ids < 0) | (ids >= symbols))).size:
            item = first_item + int(np.searchsorted(ends, start + bad[0], side="right"))
            raise UserError(
                f"{binary}: id {ids[bad[0]]} at byte {(first_token + start + int(bad[0])) * dataset.dtype.itemsize:,} "
                f"(item {item:,}), while the dictionary has {symbols:,} symbols"
            )
        here = np.arange(*np.searchsorted(ends, (start + 1, start + len(ids) + 1)))
        last = ids[ends[here] - 1 - start]
        if symbols is not None and (bad := np.flatnonzero(last != EOS)).size:  # numbers that are no tokens have none
            raise UserError(
                f"{binary}: item {first_item + int(here[bad[0]]):,} ends with id {last[bad[0]]}, not with </s> ({EOS})"
            )
        unknown += int(np.count_nonzero(ids == UNK))
    return unknown
