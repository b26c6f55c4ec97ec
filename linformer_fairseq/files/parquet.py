"""Parquet files with a column of texts, which are read in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from linformer_fairseq.files.errors import UserError

Value = TypeVar("Value")
# Text of one batch, about, and rows at the most: the average row decides how many rows that is.
_BATCH_BYTES, _BATCH_ROWS = 8 << 20, 4096


def open_parquet(file: Path | IO[bytes], name: str, columns: Sequence[str], option: str) -> Any:
    """pyarrow's ``ParquetFile``, which reads pages as they are needed, and these columns as dictionaries where it can:
    a text that repeats is in the file once, and would otherwise be in memory once for each row of a batch.

    Args:
        file: its path, or the open file.
        name: of the file in messages.
        columns: of texts.
        option: with which the user names them.

    Raises:
        UserError: it is not a whole parquet file, or has no such columns.
    """
    import pyarrow  # not at the top: of all formats, only this one needs it
    import pyarrow.parquet

    try:
        # without the buffer size a whole column of a row group is read at once
        opened = partial(pyarrow.parquet.ParquetFile, file, buffer_size=1 << 20, pre_buffer=False)
        found = opened()
        for column in columns:
            check_column(found.schema_arrow, column, name, option)
        return opened(
            metadata=found.metadata, read_dictionary=sorted(set(columns) - _incremental(found.metadata, columns))
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise damaged_parquet(name, error) from None


def _incremental(metadata: Any, columns: Sequence[str]) -> set[str]:
    """Those of ``columns`` with values that are stored as differences, which pyarrow does not make dictionaries of."""
    numbers = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return {
        name
        for name in columns
        if any(encoding.startswith("DELTA") for group in groups for encoding in group.column(numbers[name]).encodings)
    }


def damaged_parquet(where: str, error: Exception) -> UserError:
    """The error for a file that pyarrow cannot read; ``where`` names it, and the place in it."""
    import pyarrow

    reason = str(error).splitlines()[0]
    if isinstance(error, pyarrow.ArrowNotImplementedError):
        return UserError(f"{where}: of a kind that pyarrow {pyarrow.__version__} does not read ({reason}); convert it")
    return UserError(f"{where}: not a whole parquet file ({reason}); fetch or make it again")


def check_column(schema: Any, column: str, where: str, option: str) -> None:
    """Check that there is a column of texts.

    Args:
        schema: pyarrow's.
        column: its name.
        where: of what file, for messages.
        option: with which the user names the column.

    Raises:
        UserError: there is no such column, there are several, or it has no texts.
    """
    import pyarrow

    if column not in schema.names:
        raise UserError(f"{where}: no column {column!r}; it has: {', '.join(schema.names)}; name the column: {option}")
    if schema.names.count(column) > 1:
        raise UserError(f"{where}: several columns are called {column!r}; rename all but one")
    kind = schema.field(column).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value) or str(value) == "string_view"):
        raise UserError(f"{where}: column {column!r} is of type {kind}, text was expected; name the column: {option}")


def batches_of(file: Any, rows: int, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Batches of columns of `open_parquet`; of a damaged file, pyarrow may return indices outside of the dictionary.

    Args:
        file: from `open_parquet`, with these columns.
        rows: of a batch, at most.
        columns: their names.
        groups: row groups; None: all.

    Raises:
        pyarrow.ArrowException, OSError: the file is damaged.
    """
    import pyarrow
    import pyarrow.compute

    for batch in file.iter_batches(rows, row_groups=groups, columns=list(columns)):
        for column in filter(_has_dictionary, batch.columns):
            lowest, highest = pyarrow.compute.min_max(column.indices).values()
            if lowest.is_valid and not 0 <= lowest.as_py() <= highest.as_py() < len(column.dictionary):
                raise pyarrow.ArrowInvalid("an index outside of its dictionary")
        yield batch


def _has_dictionary(column: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_dictionary(column.type))


def texts_of(column: Any) -> list[str | None]:
    """The texts of a pyarrow array; those that are one in its dictionary are one object.

    Raises:
        UnicodeDecodeError: one is not UTF-8.
    """
    if not _has_dictionary(column):
        plain: list[str | None] = column.to_pylist()
        return plain
    return _spread(column.dictionary.to_pylist(), column)


def bytes_of(column: Any) -> list[bytes | None]:
    """The same as bytes, which need not be UTF-8."""
    import pyarrow

    if not _has_dictionary(column):
        plain: list[bytes | None] = column.cast(pyarrow.large_binary()).to_pylist()
        return plain
    return _spread(column.dictionary.cast(pyarrow.large_binary()).to_pylist(), column)


def _spread(values: list[Value], column: Any) -> list[Value | None]:
    return [None if index is None else values[index] for index in column.indices.to_pylist()]


def rows_of_batch(size: int, rows: int) -> int:
    """How many rows to read at a time, where ``rows`` rows have ``size`` bytes."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
