"""Documents of parquet files: a column read batch by batch."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from data_prep.sources.formats import ReadOptions
from data_prep.sources.source import Errors, Record
from data_prep.sources.streams import Readable
from data_prep.support.room import room_for_temporary_files
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.parquet import (
    batches_of,
    bytes_of,
    check_column,
    damaged_parquet,
    open_parquet,
    rows_of_batch,
    texts_of,
)

_OPTION = "field=COLUMN"


@contextmanager
def spooled(stream: Readable) -> Iterator[IO[bytes]]:
    """``stream`` in a temporary file (in TMPDIR), for the block's time: parquet is read from its end."""
    with tempfile.TemporaryFile() as file:
        with room_for_temporary_files():
            shutil.copyfileobj(stream, file, 1 << 20)
            file.seek(0)
        yield file


class ParquetReader:
    """The rows of one parquet file."""

    def __init__(self, file: IO[bytes], name: str, options: ReadOptions) -> None:
        """Read the footer of ``file``, called ``name`` in messages.

        Raises:
            UserError: not a whole parquet file, or no text column of the name asked for.
        """
        self._name = name
        self._options = options
        self._file = open_parquet(file, name, [options.field], _OPTION)
        self._groups = [self._file.metadata.row_group(i) for i in range(self._file.num_row_groups)]
        self.rows: int = self._file.metadata.num_rows
        self.done = 0
        """Rows left behind so far, the skipped ones among them."""

    def records(self, errors: Errors, skip: int = 0) -> Iterator[Record]:
        """The documents, without the first ``skip``; row groups with none of the others are not read.

        Raises:
            UserError: damaged data, a row without a text, or one over the limit.
        """
        first, before = 0, 0
        while first < len(self._groups) and before + self._groups[first].num_rows <= skip:
            before += self._groups[first].num_rows
            first += 1
        self.done = before
        for index in range(first, len(self._groups)):
            for batch in self._batches(index):
                column = batch.column(0)
                left = max(0, skip - self.done)
                start = self.done + left
                self.done += len(column)
                if left < len(column):
                    yield from column_records(column.slice(left), start, self._name, self._options, errors)

    def _batches(self, index: int) -> Iterator[Any]:
        import pyarrow

        group = self._groups[index]
        sizes = [group.column(i) for i in range(group.num_columns)]
        # Nested columns have longer paths; ours is a plain one.
        size = sum(x.total_uncompressed_size for x in sizes if x.path_in_schema == self._options.field)
        rows = rows_of_batch(size, group.num_rows)
        try:
            yield from batches_of(self._file, rows, [self._options.field], [index])
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_parquet(f"{self._name}, after row {self.done:,}", error) from None


def check_text_column(schema: Any, name: str, where: str) -> None:
    """Raise unless ``schema`` (pyarrow's) has a column of texts called ``name``."""
    check_column(schema, name, where, _OPTION)


def column_records(column: Any, start: int, name: str, options: ReadOptions, errors: Errors) -> Iterator[Record]:
    """Records of a pyarrow array of texts whose first row is row ``start`` of the file (counted from 0).

    Raises:
        UserError: a null, bytes that are not UTF-8, or a document over the limit.
    """
    limit = options.limits.max_document_bytes
    try:
        values: Sequence[Any] = texts_of(column)
    except UnicodeDecodeError:
        values = decoded(column, start, name, errors)
    for row, value in enumerate(values, start=start + 1):
        where = f"{name}, row {row}"
        if value is None:
            raise UserError(
                f"{where}: {options.field!r} is null, a text was expected; remove the row, or name another "
                "column: field=COLUMN"
            )
        text, replaced = value if isinstance(value, tuple) else (value, False)
        if len(text) > limit // 4 and len(text.encode()) > limit:
            raise UserError(
                f"{where}: the document is longer than {limit:,} bytes; raise --max-document-bytes if it really is one"
            )
        yield Record(text.replace("\r\n", "\n") if "\r" in text else text, where, replaced)


def decoded(column: Any, start: int, name: str, errors: Errors) -> list[tuple[str, bool] | None]:
    """The values of a column in which some bytes are not UTF-8, with whether they were replaced.

    Raises:
        UserError: they are to be refused; the message names the row.
    """
    found: list[tuple[str, bool] | None] = []
    for row, data in enumerate(bytes_of(column), start=start + 1):
        if data is None:
            found.append(None)
            continue
        try:
            found.append((data.decode(), False))
        except UnicodeDecodeError as error:
            if errors == "strict":
                raise UserError(
                    f"{name}, row {row}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,} of the "
                    "text; put U+FFFD in place of such bytes with --errors replace"
                ) from None
            found.append((data.decode(errors="replace"), True))
    return found
