"""Units of files on the disk: which file is of which format, and reading it."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from data_prep.sources.formats import (
    Reader,
    ReadOptions,
    read_json_lines,
    read_text_blocks,
    read_wikiextractor,
)
from data_prep.sources.parquet import ParquetReader, spooled
from data_prep.sources.shaping import Shape
from data_prep.sources.source import Errors, Record, Unit
from data_prep.sources.streams import Stream
from data_prep.support.step import file_state
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.signatures import COMPRESSIONS, HEAD, compression_of, kind_of
from linformer_fairseq.files.text import refuse_utf16

READERS: dict[str, Reader] = {
    "text": read_text_blocks,
    "jsonl": read_json_lines,
    "wikiextractor": read_wikiextractor,
}
"""The formats that are read from beginning to end."""
FORMATS = (*READERS, "parquet")
_ENDINGS = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
KNOWN_NAMES = "*.txt, *.jsonl, *.parquet or WikiExtractor's wiki_00, also with .gz, .bz2, .xz or .zst"
"""For messages."""
_WIKIEXTRACTOR_NAME = re.compile(r"wiki_\d+")


def format_of(path: Path) -> str | None:
    """The format that the file's name shows."""
    name = path.name[: -len(path.suffix)] if compression_of(path) else path.name
    if _WIKIEXTRACTOR_NAME.fullmatch(name):
        return "wikiextractor"
    return _ENDINGS.get(Path(name).suffix.lower())


class FileUnit(Unit):
    """The documents of one file."""

    def __init__(self, path: Path, kind: str, options: ReadOptions, shape: Shape) -> None:
        """Look at the file's beginning only.

        Args:
            path: the file.
            kind: one of :data:`FORMATS`.
            options: how it is read.
            shape: what is made of its records.

        Raises:
            UserError: missing, empty, unreadable, or of another kind than its name says.
        """
        self.name = str(path)
        self.path = path
        self._kind, self._options, self._shape = kind, options, shape
        self._check()
        self._seen = file_state(path)
        self.size = path.stat().st_size
        self._position = 0
        self._digest: str | None = None

    def identity(self) -> dict[str, object]:
        """Absolute path, size and time of the last change."""
        return self._seen

    def position(self) -> int:
        """Bytes of the file read so far."""
        return self._position

    def documents(self, errors: Errors = "strict", skip: int = 0) -> Iterator[Record]:
        """The documents in the order of the file, without the first ``skip``."""
        self._position = 0
        return self._shape.apply(self._records, errors, skip)

    def provenance(self) -> dict[str, object]:
        """Path, size, time of the last change and sha256 of the file as it lies there."""
        if file_state(self.path) != self._seen:
            raise UserError(f"{self.path}: it was changed while it was read; run the same command again")
        if self._digest is None:
            self._digest = sha256(self.path)
        return {**self.identity(), "sha256": self._digest}

    def _records(self, errors: Errors, skip: int) -> Iterator[Record]:
        with_parquet = self._kind == "parquet"
        yielded = False
        for record in self._rows(errors, skip) if with_parquet else self._read(errors, skip):
            yielded = True
            yield record
        if not yielded and not skip:
            raise UserError(
                f"{self.path}: no document in it: {'no rows' if with_parquet else 'nothing but blank lines'}"
            )
        self._position = self.size or 0

    def _read(self, errors: Errors, skip: int) -> Iterator[Record]:
        with closing(Stream(self.path, self.name)) as stream:
            for record in READERS[self._kind](stream, self.name, self._options, errors, skip):
                self._position = stream.file.consumed
                yield record
            self._digest = stream.file.digest()  # the stream's end is the file's

    def _rows(self, errors: Errors, skip: int) -> Iterator[Record]:
        with ExitStack() as stack:
            if compression_of(self.path):
                stream = stack.enter_context(closing(Stream(self.path, self.name)))
                file = stack.enter_context(spooled(stream))
            else:
                file = stack.enter_context(self.path.open("rb"))
            reader = ParquetReader(file, self.name, self._options)
            for record in reader.records(errors, skip):
                self._position = (self.size or 0) * reader.done // max(1, reader.rows)
                yield record

    def _check(self) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: no such file")
        if not self.path.is_file():
            raise UserError(f"{self.path}: not a regular file, which is needed to read it again after an interruption")
        if not os.access(self.path, os.R_OK):
            raise UserError(f"{self.path}: permission denied; make it readable with: chmod u+r")
        with self.path.open("rb") as file:
            head = file.read(HEAD)
        if not head:
            raise UserError(f"{self.path}: the file is empty (0 bytes)")
        refuse_utf16(self.path, head)
        found = kind_of(head)
        compression = compression_of(self.path)
        expected = compression or ("parquet" if self._kind == "parquet" else None)
        if found != expected:
            looks = f"is {found}" if found else "does not begin as such a file does"
            wanted = f"a {expected} file" if expected else "plain text"
            by_name = compression or format_of(self.path) == self._kind
            teller = "its name" if by_name else f"format={self._kind}"
            hint = "give the file its right name or fetch it again" if by_name else "say the format that it has"
            if found in COMPRESSIONS.values() and not compression:
                ending = next(name for name, kind in COMPRESSIONS.items() if kind == found)
                hint = f"rename it to {self.path.name}{ending}, by which it is decompressed, or fetch it again"
            raise UserError(f"{self.path}: {teller} says {wanted}, its content {looks}; {hint}")
