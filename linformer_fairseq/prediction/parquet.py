"""Reads columns of texts from parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from linformer_fairseq.files import parquet
from linformer_fairseq.prediction.items import LONGEST, Item, Source, Text, decoded, kept, one_line, text_of, too_long


def open_parquet(path: Path, fields: Sequence[str]) -> Source:
    """Open a file and find its columns ``fields``.

    Raises:
        UserError: it is not a parquet file, or has no column of texts of that name.
    """
    file = parquet.open_parquet(path, str(path), fields, "--field")
    return Source(str(path), "row", _rows(file, path, fields), file.metadata.num_rows, "rows")


def _rows(file: Any, path: Path, fields: Sequence[str]) -> Iterator[Item]:
    import pyarrow

    metadata = file.metadata
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    number = 0
    try:
        for batch in parquet.batches_of(file, parquet.rows_of_batch(size, metadata.num_rows), fields):
            columns = [parquet.bytes_of(batch.column(field)) for field in fields]
            for raw in zip(*columns, strict=True):
                number += 1
                yield Item(str(number), _from_bytes(raw, fields), 1)
    except (pyarrow.ArrowException, OSError) as error:
        raise parquet.damaged_parquet(f"{path}, after row {number:,}", error) from None


def _from_bytes(raw: Sequence[bytes | None], fields: Sequence[str]) -> Text | ValueError:
    if any(len(value) > LONGEST for value in raw if value is not None):
        return too_long()
    values = [None if value is None else decoded(value) for value in raw]
    wrong = next((value for value in values if isinstance(value, ValueError)), None)
    try:
        return wrong or one_line(text_of(values, fields))
    except ValueError as error:
        return kept(error)
