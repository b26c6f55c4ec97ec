"""Writes vectors to .npy or parquet files, one text at a time. A text that could not be read has NaN, or null."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction.results import Embedding

ENDINGS = (".npy", ".parquet")
_ROWS, _VALUES = 4096, 1 << 22
"""Most texts and numbers of a row group of a parquet file."""


class VectorWriter(ABC):
    """Takes the vectors of text after text."""

    @abstractmethod
    def add(self, identifier: str, found: Embedding | None) -> None:
        """Write the vectors of the next text; None: it could not be read."""


def outputs_of(path: Path, tokens: bool) -> list[Path]:
    """The files that `open_vectors` writes."""
    return [path, path.with_suffix(".lengths.npy")] if tokens and path.suffix == ".npy" else [path]


@contextmanager
def open_vectors(path: Path, width: int, tokens: bool) -> Iterator[VectorWriter]:
    """Write to a file that appears when the block ends.

    Args:
        path: ends with .npy: (texts, C), or, of tokens, (tokens of all texts, C) and NAME.lengths.npy beside it, with
            the number of tokens of each text. Ends with .parquet: the columns ``id`` and ``vector``, or, of tokens,
            ``id``, ``tokens`` and ``vectors``.
        width: C.
        tokens: whether there is a vector for each token.

    Raises:
        UserError: the name has another ending.
    """
    if path.suffix not in ENDINGS:
        raise UserError(f"--out {path}: expected a name that ends with {' or '.join(ENDINGS)}")
    with ExitStack() as stack:
        if path.suffix == ".parquet":
            yield stack.enter_context(_parquet(path, width, tokens))
        elif tokens:
            lengths = stack.enter_context(_npy(outputs_of(path, tokens)[1], (), np.dtype(np.int64)))
            yield _TokenArrays(stack.enter_context(_npy(path, (width,), np.dtype(np.float32))), lengths)
        else:
            yield _TextArray(stack.enter_context(_npy(path, (width,), np.dtype(np.float32))), width)


class _Array:
    """An array in a .npy file that grows along its first axis."""

    def __init__(self, stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._stream, self._shape, self._dtype = stream, shape, dtype
        self._count = 0
        self.write_header()

    def write_header(self) -> None:
        """Write the header, in which numpy leaves room for a larger first axis, to the beginning of the file."""
        self._stream.seek(0)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._count, *self._shape)}
        np.lib.format.write_array_header_1_0(self._stream, header)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Add rows, (rows, ...)."""
        self._stream.write(np.ascontiguousarray(rows, dtype=self._dtype).tobytes())
        self._count += len(rows)


@contextmanager
def _npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[_Array]:
    with atomic_open(path, "wb") as stream:
        array = _Array(stream, shape, dtype)
        yield array
        array.write_header()


class _TextArray(VectorWriter):
    def __init__(self, vectors: _Array, width: int) -> None:
        self._vectors = vectors
        self._missing = np.full((1, width), np.nan, dtype=np.float32)

    def add(self, identifier: str, found: Embedding | None) -> None:
        self._vectors.add(self._missing if found is None else found.vectors[np.newaxis])


class _TokenArrays(VectorWriter):
    def __init__(self, vectors: _Array, lengths: _Array) -> None:
        self._vectors, self._lengths = vectors, lengths

    def add(self, identifier: str, found: Embedding | None) -> None:
        if found is not None:
            self._vectors.add(found.vectors)
        self._lengths.add(np.array([0 if found is None else len(found.vectors)]))


@contextmanager
def _parquet(path: Path, width: int, tokens: bool) -> Iterator[VectorWriter]:
    import pyarrow  # not at the top: only this format needs it
    import pyarrow.parquet

    vector = pyarrow.list_(pyarrow.float32(), width)
    columns = {"tokens": pyarrow.list_(pyarrow.string()), "vectors": pyarrow.list_(vector)}
    schema = pyarrow.schema({"id": pyarrow.string(), **(columns if tokens else {"vector": vector})})
    with atomic_open(path, "wb") as stream, pyarrow.parquet.ParquetWriter(stream, schema) as file:
        writer = _ParquetRows(file, schema)
        yield writer
        writer.flush()


class _ParquetRows(VectorWriter):
    def __init__(self, file: Any, schema: Any) -> None:
        self._file, self._schema = file, schema
        self._rows: list[list[Any]] = []
        self._values = 0

    def add(self, identifier: str, found: Embedding | None) -> None:
        if found is None:
            self._rows.append([identifier, *[None] * (len(self._schema) - 1)])
        elif found.tokens is None:
            self._rows.append([identifier, found.vectors])
        else:
            self._rows.append([identifier, found.tokens, list(found.vectors)])
        self._values += 0 if found is None else found.vectors.size
        if len(self._rows) >= _ROWS or self._values >= _VALUES:
            self.flush()

    def flush(self) -> None:
        """Write what is held as a row group."""
        import pyarrow

        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
            self._file.write_batch(pyarrow.record_batch(arrays, schema=self._schema))
        self._rows, self._values = [], 0
