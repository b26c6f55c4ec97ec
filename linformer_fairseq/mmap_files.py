"""Reading fairseq's memory-mapped datasets with suspicion: every .idx is held against its .bin.

numpy only, and in chunks: a dataset may be larger than the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

EOS, UNK = 2, 3
_MAGIC = b"MMIDIDX\0\0"
_HEADER = len(_MAGIC) + struct.calcsize("<QBQ")
# fairseq's codes (fairseq/data/indexed_dataset.py); 6 and 7 are floats, which hold no ids.
_TYPES: dict[int, npt.DTypeLike] = {
    1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32, 10: np.uint64,
}  # fmt: skip
_ITEMS, _TOKENS = 1 << 18, 1 << 22
"""How many are in memory at a time."""


class Damaged(Exception):
    """A file is not what it should be; the message names it and says what is wrong."""


@dataclass(frozen=True)
class Dataset:
    """A .bin whose .idx fits it."""

    prefix: Path
    """Path without the suffix."""
    dtype: np.dtype[Any]
    items: int

    @property
    def sizes(self) -> npt.NDArray[np.int32]:
        """Tokens of each item, shape (items,), mapped."""
        return np.memmap(_idx(self.prefix), np.int32, "r", _HEADER, (self.items,))

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First byte of each item, shape (items,), mapped."""
        return np.memmap(_idx(self.prefix), np.int64, "r", _HEADER + 4 * self.items, (self.items,))

    def item(self, number: int) -> list[int]:
        """The ids of one item."""
        offset, size = int(self.offsets[number]), int(self.sizes[number])
        ids: list[int] = np.fromfile(_bin(self.prefix), self.dtype, size, offset=offset).tolist()
        return ids


@dataclass
class Counts:
    """What a dataset holds."""

    items: int = 0
    tokens: int = 0
    unknown: int = 0
    documents: int | None = None
    """Runs of items between separators (items of </s> alone); None where there is no separator."""
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(33, dtype=np.int64))
    """Items by length without </s>: none, 1, 2-3, 4-7, 8-15, ..."""


def _idx(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".idx")


def _bin(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".bin")


def open_dataset(prefix: Path) -> Dataset:
    """Read the index's header and compare the sizes of both files with it.

    Raises:
        Damaged: a missing file, another format, or a size that cannot be.
    """
    idx, binary = _idx(prefix), _bin(prefix)
    for path, other in ((idx, binary), (binary, idx)):
        if not path.is_file():
            raise Damaged(f"{path}: missing, while there is a {other.name}")
    with idx.open("rb") as stream:
        header = stream.read(_HEADER)
    if not header.startswith(_MAGIC):
        raise Damaged(f"{idx}: not an index of fairseq's mmap format: it begins with {header[:9]!r}, not {_MAGIC!r}")
    if len(header) < _HEADER:
        raise Damaged(f"{idx}: cut off after {len(header)} bytes, inside its header")
    version, code, items = struct.unpack("<QBQ", header[len(_MAGIC) :])
    if version != 1:
        raise Damaged(f"{idx}: version {version}, while fairseq reads version 1")
    if code not in _TYPES:
        raise Damaged(f"{idx}: element type {code}, which is no type of integers (fairseq's codes 1-5 and 8-10)")
    expected, found = _HEADER + 12 * items, idx.stat().st_size
    if found != expected:
        raise Damaged(f"{idx}: {found:,} bytes long, while its {items:,} items need {expected:,}")
    return Dataset(prefix, np.dtype(_TYPES[code]), items)


def _chunks(dataset: Dataset) -> Iterator[npt.NDArray[np.int64]]:
    """Sizes of some items at a time.

    Raises:
        Damaged: sizes or offsets that cannot be, or that another length of .bin belongs to.
    """
    idx, binary = _idx(dataset.prefix), _bin(dataset.prefix)
    width, end = dataset.dtype.itemsize, 0
    for first in range(0, dataset.items, _ITEMS):
        sizes = dataset.sizes[first : first + _ITEMS].astype(np.int64)
        if (bad := np.flatnonzero(sizes < 1)).size:
            raise Damaged(f"{idx}: item {first + bad[0]:,} has {sizes[bad[0]]} tokens, at least </s> was expected")
        ends = end + np.cumsum(sizes) * width
        wrong = np.flatnonzero(dataset.offsets[first : first + _ITEMS] != ends - sizes * width)
        if wrong.size:
            number, expected = first + int(wrong[0]), int(ends[wrong[0]] - sizes[wrong[0]] * width)
            raise Damaged(
                f"{idx}: item {number:,} is said to begin at byte {dataset.offsets[number]:,} of the .bin, but the "
                f"items before it end at byte {expected:,} (elements of type {dataset.dtype})"
            )
        end = int(ends[-1])
        yield sizes
    if (found := binary.stat().st_size) != end:
        raise Damaged(
            f"{binary}: {found:,} bytes long, while its .idx needs {end:,}: one of the two is cut off, or of other data"
        )


def check(dataset: Dataset, symbols: int | None) -> Counts:
    """Read all of it.

    Args:
        dataset: from `open_dataset`.
        symbols: size of the dictionary, which all ids must be below; None where there is no dictionary.

    Raises:
        Damaged: see the module; the message names item and byte.
    """
    for _ in _chunks(dataset):  # all of the index before the first id: a wrong length explains wrong ids
        pass
    counts, separators, inside, first = Counts(), 0, False, 0
    with _bin(dataset.prefix).open("rb") as stream:
        for sizes in _chunks(dataset):
            text = np.concatenate([[inside], sizes > 1])
            counts.documents = (counts.documents or 0) + int(np.count_nonzero(text[1:] & ~text[:-1]))
            inside, separators = bool(text[-1]), separators + int(np.count_nonzero(sizes == 1))
            counts.lengths += np.bincount(np.frexp(sizes - 1)[1], minlength=33)
            counts.unknown += _check_ids(dataset, stream, sizes, first, counts.tokens, symbols)
            counts.items += len(sizes)
            counts.tokens += int(sizes.sum())
            first += len(sizes)
    if not separators:
        counts.documents = None
    return counts


def _check_ids(
    dataset: Dataset, stream: Any, sizes: npt.NDArray[np.int64], first_item: int, first_token: int, symbols: int | None
) -> int:
    """Look at the ids of the next items in ``stream``; returns how many are <unk>."""
    binary, ends, unknown = _bin(dataset.prefix), np.cumsum(sizes), 0
    for start in range(0, int(ends[-1]), _TOKENS):
        ids = np.fromfile(stream, dataset.dtype, min(_TOKENS, int(ends[-1]) - start))
        if symbols is not None and (bad := np.flatnonzero((ids < 0) | (ids >= symbols))).size:
            item = first_item + int(np.searchsorted(ends, start + bad[0], side="right"))
            raise Damaged(
                f"{binary}: id {ids[bad[0]]} at byte {(first_token + start + int(bad[0])) * dataset.dtype.itemsize:,} "
                f"(item {item:,}), while the dictionary has {symbols:,} symbols"
            )
        here = np.arange(*np.searchsorted(ends, (start + 1, start + len(ids) + 1)))
        last = ids[ends[here] - 1 - start]
        if (bad := np.flatnonzero(last != EOS)).size:
            raise Damaged(
                f"{binary}: item {first_item + int(here[bad[0]]):,} ends with id {last[bad[0]]}, not with </s> ({EOS})"
            )
        unknown += int(np.count_nonzero(ids == UNK))
    return unknown
