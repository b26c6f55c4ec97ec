"""Writer of fairseq's memory-mapped dataset: NAME.bin with the tokens, NAME.idx with where each item lies.

Layout of the index, little endian: magic ``MMIDIDX\\0\\0``, version (uint64, 1), code of the element type
(uint8), number of items (uint64), sizes in elements (int32 each), offsets in bytes (int64 each).
Source: fairseq/data/indexed_dataset.py (MMapIndexedDataset); written here so that preparing data needs
neither torch nor fairseq, and so that both files appear whole or not at all.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.support.files import atomic_open

_CODES: dict[str, int] = {"int32": 4, "uint16": 8}
_CHUNK = 1 << 20
"""Items whose sizes and offsets are in memory at a time."""


def element_type(vocabulary: int) -> np.dtype[np.generic]:
    """The smallest type fairseq reads that holds ids below ``vocabulary``."""
    # fairseq itself stops short of 65,500 for uint16 (best_fitting_int_dtype), as tasks add symbols.
    return np.dtype(np.uint16 if vocabulary < 65_500 else np.int32)


def write_index(path: Path, sizes: npt.NDArray[np.int32], dtype: np.dtype[np.generic]) -> None:
    """Write the .idx of a .bin whose items lie there one after the other.

    Args:
        path: the .idx.
        sizes: number of ids of each item, shape (items,); may be a memory map, which is read in chunks.
        dtype: of the .bin; see `element_type`.
    """
    chunks = [sizes[start : start + _CHUNK] for start in range(0, len(sizes), _CHUNK)]
    with atomic_open(path, "wb") as stream:
        stream.write(b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, _CODES[dtype.name], len(sizes)))
        for chunk in chunks:
            stream.write(chunk.astype("<i4").tobytes())
        offset = 0
        for chunk in chunks:
            ends = offset + np.cumsum(chunk, dtype=np.int64) * dtype.itemsize
            stream.write((ends - chunk.astype(np.int64) * dtype.itemsize).astype("<i8").tobytes())
            offset = int(ends[-1])


def write(prefix: Path, items: Iterable[npt.NDArray[np.generic]], vocabulary: int) -> tuple[int, int]:
    """Write ``prefix``.bin and ``prefix``.idx.

    Args:
        prefix: path without the suffix; fairseq finds a split by it.
        items: one array of ids, shape (tokens,), per item.
        vocabulary: ids are below this number; sets the element type.

    Returns:
        Number of items and of tokens.
    """
    dtype = element_type(vocabulary)
    sizes: list[int] = []
    with atomic_open(prefix.with_name(prefix.name + ".bin"), "wb") as stream:
        for item in items:
            stream.write(item.astype(dtype).tobytes())
            sizes.append(len(item))
    # The index comes last: a split without one does not exist for fairseq.
    write_index(prefix.with_name(prefix.name + ".idx"), np.asarray(sizes, dtype=np.int32), dtype)
    return len(sizes), sum(sizes)
