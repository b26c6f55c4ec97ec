"""fairseq's memory-mapped datasets: NAME.bin with the tokens, NAME.idx with where each item lies.

Layout of the index, little endian: magic ``MMIDIDX\\0\\0``, version (uint64, 1), code of the element type (uint8),
number of items (uint64), sizes in elements (int32 each), offsets in bytes (int64 each). Source:
fairseq/data/indexed_dataset.py (MMapIndexedDataset); written here so that preparing data and looking into it needs
neither torch nor fairseq, and so that both files appear whole or not at all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError

_MAGIC = b"MMIDIDX\0\0"
_VERSION = 1
_NUMBERS = struct.Struct("<QBQ")
_HEADER = len(_MAGIC) + _NUMBERS.size
# fairseq's codes; 6 and 7 are floats, which hold no ids.
_CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8, "uint32": 9, "uint64": 10}
_CHUNK = 1 << 20
"""Items whose sizes and offsets are in memory at a time."""


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
        return np.memmap(idx_of(self.prefix), np.int32, "r", _HEADER, (self.items,))

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First byte of each item, shape (items,), mapped."""
        return np.memmap(idx_of(self.prefix), np.int64, "r", _HEADER + 4 * self.items, (self.items,))

    def item(self, number: int) -> list[int]:
        """The ids of one item."""
        offset, size = int(self.offsets[number]), int(self.sizes[number])
        ids: list[int] = np.fromfile(bin_of(self.prefix), self.dtype, size, offset=offset).tolist()
        return ids


def idx_of(prefix: Path) -> Path:
    """The index of a dataset."""
    return prefix.with_name(prefix.name + ".idx")


def bin_of(prefix: Path) -> Path:
    """The tokens of a dataset."""
    return prefix.with_name(prefix.name + ".bin")


def open_dataset(prefix: Path) -> Dataset:
    """Read the index's header and compare the size of the index with it; `mmap_check` reads all of both files.

    Raises:
        UserError: a missing file, another format, or a size that cannot be; the message names the file.
    """
    idx, binary = idx_of(prefix), bin_of(prefix)
    for path, other in ((idx, binary), (binary, idx)):
        if not path.is_file():
            raise UserError(f"{path}: missing" + (f", while there is a {other.name}" if other.is_file() else ""))
    with idx.open("rb") as stream:
        header = stream.read(_HEADER)
    if not header.startswith(_MAGIC):
        raise UserError(f"{idx}: not an index of fairseq's mmap format: it begins with {header[:9]!r}, not {_MAGIC!r}")
    if len(header) < _HEADER:
        raise UserError(f"{idx}: cut off after {len(header)} bytes, inside its header")
    version, code, items = _NUMBERS.unpack(header[len(_MAGIC) :])
    if version != _VERSION:
        raise UserError(f"{idx}: version {version}, while fairseq reads version {_VERSION}")
    dtype = next((np.dtype(name) for name, known in _CODES.items() if known == code), None)
    if dtype is None:
        raise UserError(f"{idx}: element type {code}, which is no type of integers (fairseq's codes 1-5 and 8-10)")
    expected, found = _HEADER + 12 * items, idx.stat().st_size
    if found != expected:
        raise UserError(f"{idx}: {found:,} bytes long, while its {items:,} items need {expected:,}")
    return Dataset(prefix, dtype, items)


def element_type(vocabulary: int) -> np.dtype[np.generic]:
    """The smallest type fairseq reads that holds ids below ``vocabulary``."""
    # fairseq itself stops short of 65,500 for uint16 (best_fitting_int_dtype), as tasks add symbols.
    return np.dtype(np.uint16 if vocabulary < 65_500 else np.int32)


def write_dataset(prefix: Path, items: Iterable[npt.NDArray[np.generic]], vocabulary: int) -> None:
    """Write ``prefix``.bin and ``prefix``.idx.

    Args:
        prefix: path without the suffix; fairseq finds a split by it.
        items: one array of ids, shape (tokens,), per item.
        vocabulary: ids are below this number; sets the element type.

    Raises:
        OSError: one of the files cannot be written.
    """
    dtype = element_type(vocabulary)
    sizes: list[int] = []
    with atomic_open(bin_of(prefix), "wb") as stream:
        for item in items:
            stream.write(item.astype(dtype).tobytes())
            sizes.append(len(item))
    # The index comes last: a split without one does not exist for fairseq.
    write_index(idx_of(prefix), np.asarray(sizes, dtype=np.int32), dtype)


def count_documents(sizes: npt.NDArray[np.integer], inside: bool) -> int:
    """How many documents begin in some items: runs of items that are more than </s> alone.

    Args:
        sizes: tokens of the items.
        inside: whether the item before them belongs to a document, which they then continue.
    """
    text = np.concatenate([[inside], sizes > 1])
    return int(np.count_nonzero(text[1:] & ~text[:-1]))


def write_index(path: Path, sizes: npt.NDArray[np.int32], dtype: np.dtype[np.generic]) -> None:
    """Write the .idx of a .bin whose items lie there one after the other.

    Args:
        path: the .idx.
        sizes: number of ids of each item, shape (items,); may be a memory map, which is read in chunks.
        dtype: of the .bin; see `element_type`.

    Raises:
        OSError: it cannot be written.
    """
    chunks = [sizes[start : start + _CHUNK] for start in range(0, len(sizes), _CHUNK)]
    with atomic_open(path, "wb") as stream:
        stream.write(_MAGIC + _NUMBERS.pack(_VERSION, _CODES[dtype.name], len(sizes)))
        for chunk in chunks:
            stream.write(chunk.astype("<i4").tobytes())
        offset = 0
        for chunk in chunks:
            ends = offset + np.cumsum(chunk, dtype=np.int64) * dtype.itemsize
            stream.write((ends - chunk.astype(np.int64) * dtype.itemsize).astype("<i8").tobytes())
            offset = int(ends[-1])
