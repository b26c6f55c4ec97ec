"""Reads columns of texts from parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction.items import LONGEST, Item, Source, Text, decoded, one_line, text_of, too_long

# Text of one batch, about, and rows at the most.
_BATCH_BYTES, _BATCH_ROWS = 8 << 20, 4096


def open_parquet(path: Path, fields: Sequence[str]) -> Source:
    """Open a file and find its columns ``fields``.

    Raises:
        UserError: it is not a parquet file, or has no column of texts of that name.
    """
    import pyarrow  # not at the top: only this format needs it
    import pyarrow.parquet

    try:
        file: Any = pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a whole parquet file ({str(error).splitlines()[0]})") from None
    schema = file.schema_arrow
    for field in fields:
        if field not in schema.names:
            raise UserError(f"{path}: no column {field!r}; it has: {', '.join(schema.names)}; name the column: --field")
        kind = schema.field(field).type
        value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value)):
            raise UserError(f"{path}: the column {field!r} is of type {kind}, a column of texts was expected")
    return Source(str(path), "row", _rows(file, path, fields), file.metadata.num_rows, "rows")


def _rows(file: Any, path: Path, fields: Sequence[str]) -> Iterator[Item]:
    import pyarrow

    metadata = file.metadata
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * metadata.num_rows // max(1, size)))
    number = 0
    try:
        for batch in file.iter_batches(rows, columns=list(fields)):
            columns = [_bytes_of(batch.column(field)) for field in fields]
            for raw in zip(*columns, strict=True):
                number += 1
                yield Item(str(number), _from_bytes(raw, fields), 1)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}, after row {number:,}: cannot be read ({str(error).splitlines()[0]})") from None


def _bytes_of(column: Any) -> list[bytes | None]:
    """The values of a column, which need not be UTF-8."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values: list[bytes | None] = column.cast(pyarrow.large_binary()).to_pylist()
    return values


def _from_bytes(raw: Sequence[bytes | None], fields: Sequence[str]) -> Text | ValueError:
    if any(len(value) > LONGEST for value in raw if value is not None):
        return too_long()
    values = [None if value is None else decoded(value) for value in raw]
    wrong = next((value for value in values if isinstance(value, ValueError)), None)
    try:
        return wrong or one_line(text_of(values, fields))
    except ValueError as error:
        return error
