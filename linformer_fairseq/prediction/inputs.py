"""Reads texts from lines, TSV, JSON lines, parquet or a folder of documents, one at a time.

An invalid line becomes an error in the place of its text, so that the others are still processed. The readers of
``data_prep`` stop at the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import parse
from linformer_fairseq.files.names import shown
from linformer_fairseq.files.signatures import HEAD, compression_of, kind_of
from linformer_fairseq.files.text import BYTE_ORDER_MARK, refuse_utf16
from linformer_fairseq.files.walking import walk
from linformer_fairseq.prediction.items import LONGEST, Item, Source, Text, decoded, kept, one_line, text_of, too_long
from linformer_fairseq.prediction.options import EXTENSIONS
from linformer_fairseq.prediction.parquet import open_parquet

_PROGRAMS = {"gzip": "zcat", "bzip2": "bzcat", "xz": "xzcat", "Zstandard": "zstdcat"}
"""The programs that decompress a kind of file."""


def open_source(path: Path | None, stdin: IO[bytes] | None, kind: str | None, fields: Sequence[str]) -> Source:
    """Open an input.

    Args:
        path: a file, or a folder with a document in each file; None: ``stdin``.
        stdin: standard input; None: it is closed, or not wanted.
        kind: one of `options.FORMATS`; None: by the file name's extension, otherwise lines.
        fields: names of one or two columns of a TSV file with a header or of a parquet file, or keys of JSON lines.
            Empty: of JSON lines and parquet, ``text``; a TSV file has no header then, and its lines are a text, or a
            text, a tab and another text.

    Raises:
        UserError: the file does not exist, is compressed or CSV, lacks a column or has it twice, or is not a parquet
            file; standard input is closed; or the options do not fit together. The iterator raises it for UTF-16 and
            compressed input.
    """
    if len(fields) > 2:
        raise UserError(f"--field {', '.join(fields)}: expected one name, or two for pairs")
    if path is not None and path.is_dir():
        if kind or fields:
            raise UserError(f"{path}: is a folder of documents, for which --format and --field have no meaning")
        return _folder(path)
    if path is not None and not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if path is not None and path.suffix.lower() == ".csv" and kind is None:
        raise UserError(
            f"{path}: CSV cannot be read; save it as TSV, JSON lines or parquet; or, if each whole line is a text, "
            "rename it to .txt or give --format lines to a command that has it"
        )
    if path is not None and (program := _PROGRAMS.get(compression_of(path) or "")):
        raise UserError(
            f"{path}: is compressed; decompress it with: {program} {path} > FILE, or, for a command that reads "
            f"standard input: {program} {path} | linformer ... -"
        )
    kind = kind or (EXTENSIONS.get(path.suffix.lower(), "lines") if path else "lines")
    if fields and kind == "lines":
        raise UserError(f"--field {', '.join(fields)}: lines have no columns; give --format tsv or jsonl")
    if kind == "parquet":
        if path is None:
            raise UserError("--format parquet: cannot be read from standard input; name the file")
        return open_parquet(path, fields or ["text"])
    stream = path.open("rb") if path else stdin
    if stream is None:
        raise UserError("standard input: is closed; name a file, or redirect or pipe the texts to this command")
    total = path.stat().st_size if path else None
    name = str(path) if path else "standard input"
    lines = _lines(stream, name)
    if kind == "tsv":
        items = _tsv(lines, name, fields)
    else:
        items = _each(lines, (lambda line: line) if kind == "lines" else _json_reader(fields or ["text"]))
    return Source(name, "line", items, total or None, "")


class _Line(NamedTuple):
    number: int
    text: str | ValueError
    size: int


def _lines(stream: IO[bytes], name: str) -> Iterator[_Line]:
    """Lines without their ends; LF and CRLF end a line, nothing else does.

    Raises:
        UserError: the input begins like a compressed file, or with the byte order mark of UTF-16, whose other lines
            may look like UTF-8.
    """
    number = 0
    with stream:
        while raw := stream.readline(LONGEST):
            number += 1
            size = len(raw)
            if size == LONGEST and not raw.endswith(b"\n"):
                while (more := stream.readline(LONGEST)) and not more.endswith(b"\n"):
                    size += len(more)
                yield _Line(number, too_long(), size + len(more))
                continue
            if number == 1:
                refuse_utf16(name, raw)
                if program := _PROGRAMS.get(kind_of(raw[:HEAD]) or ""):
                    raise UserError(f"{name}: is compressed; decompress it with: {program} FILE | linformer ... -")
                raw = raw.removeprefix(BYTE_ORDER_MARK)
            yield _Line(number, decoded(raw.removesuffix(b"\n").removesuffix(b"\r")), size)


def _each(lines: Iterator[_Line], parse: Callable[[str], Text]) -> Iterator[Item]:
    for number, text, size in lines:
        yield Item(str(number), text if isinstance(text, ValueError) else _parsed(parse, text), size)


def _parsed(parse: Callable[[str], Text], line: str) -> Text | ValueError:
    try:
        return one_line(parse(line))
    except ValueError as error:
        return kept(error)


def _tsv(lines: Iterator[_Line], name: str, fields: Sequence[str]) -> Iterator[Item]:
    if not fields:
        return _each(lines, _one_or_two)
    first = next(lines, None)
    if first is None or isinstance(first.text, ValueError):
        raise UserError(f"{name}: expected a first line with the names of the columns{_because(first)}")
    columns = first.text.split("\t")
    missing = [field for field in fields if field not in columns]
    if missing:
        raise UserError(f"{name}: no column {missing[0]!r} in its first line, which has: {', '.join(columns)[:200]}")
    if several := [field for field in fields if columns.count(field) > 1]:
        raise UserError(f"{name}: several columns are called {several[0]!r}; rename all but one")
    places = [columns.index(field) for field in fields]

    def cells(line: str) -> Text:
        row = line.split("\t")
        if len(row) != len(columns):
            raise ValueError(f"expected {len(columns)} columns as in the first line, found {len(row)}")
        return text_of([row[place] for place in places], fields)

    return _each(lines, cells)


def _because(line: _Line | None) -> str:
    return f"; {line.text}" if line else ", the file is empty"


def _one_or_two(line: str) -> Text:
    cells = line.split("\t")
    if len(cells) > 2:
        raise ValueError(f"expected a text, or two with a tab between them, found {len(cells)} columns; name: --field")
    return cells[0] if len(cells) == 1 else (cells[0], cells[1])


def _json_reader(fields: Sequence[str]) -> Callable[[str], Text]:
    def read(line: str) -> Text:
        try:
            value = parse(line)
        except ValueError as error:
            raise ValueError(f"not JSON that can be used: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, found {line[:60]!r}")
        return text_of([value.get(field) for field in fields], fields)

    return read


def _folder(folder: Path) -> Source:
    contents = walk(folder)
    closed = contents.unreadable
    paths = sorted([*contents.files, *closed], key=lambda path: path.parts)
    return Source(str(folder), "document", _documents(folder, paths, closed), len(paths), "documents")


def _documents(folder: Path, paths: Sequence[Path], closed: Mapping[Path, str]) -> Iterator[Item]:
    """The documents; ``closed`` has the folders that cannot be read, and why."""
    for path in paths:
        name = shown(path.relative_to(folder))
        yield Item(name, ValueError(f"cannot be read: {closed[path]}") if path in closed else _document(path), 1)


def _document(path: Path) -> Text | ValueError:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            return ValueError("not a regular file")
        with path.open("rb") as file:
            raw = file.read(LONGEST + 1)
    except OSError as error:
        return ValueError(f"cannot be read: {error.strerror or error}")
    if len(raw) > LONGEST:
        return too_long()
    text = decoded(raw.removeprefix(BYTE_ORDER_MARK))
    return text if isinstance(text, ValueError) else _parsed(lambda whole: whole, text)
