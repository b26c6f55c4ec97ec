"""Parquet files with a column of texts, which are read in batches of rows."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from linformer_fairseq.files.errors import UserError

# Text of one batch, about, and rows at the most: the average row decides how many rows that is.
_BATCH_BYTES, _BATCH_ROWS = 8 << 20, 4096


def open_parquet(file: Path | IO[bytes], name: str) -> Any:
    """pyarrow's ``ParquetFile``, which reads pages as they are needed.

    Args:
        file: its path, or the open file.
        name: of the file in messages.

    Raises:
        UserError: it is not a whole parquet file.
    """
    import pyarrow  # not at the top: of all formats, only this one needs it
    import pyarrow.parquet

    try:
        # without the buffer size a whole column of a row group is read at once
        return pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise damaged_parquet(name, error) from None


def damaged_parquet(where: str, error: Exception) -> UserError:
    """The error for a file that pyarrow cannot read; ``where`` names it, and the place in it."""
    return UserError(f"{where}: not a whole parquet file ({str(error).splitlines()[0]}); fetch or make it again")


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


def rows_of_batch(size: int, rows: int) -> int:
    """How many rows to read at a time, where ``rows`` rows have ``size`` bytes."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
