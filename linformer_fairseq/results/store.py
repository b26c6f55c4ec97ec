"""The file of rows: one run a line, replaced as a whole.

A row may replace an earlier one of the same run, so nothing is appended: under a lock the file is read, merged,
written under a temporary name and renamed. A reader sees the file before or after, never half a line; of two
collectors at once the second waits. The lock is on the file of rows itself, which is why its holder looks whether the
name still leads to what it locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from linformer_fairseq.results.errors import ResultsError
from linformer_fairseq.results.rows import Row, from_line, to_line


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, in its order.

    Raises:
        ResultsError: there is no such file, or a line is no row; the text names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; make it with: linformer results collect DIR --out {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(from_line(line))
        except ValueError as error:
            raise ResultsError(f"{path}, line {number}: no row of results: {error}; mend or remove the line") from None
    return rows


def merge_rows(path: Path, rows: Iterable[Row]) -> tuple[int, int]:
    """Put rows into a file, each in the place of the earlier row of the same run.

    Returns:
        How many are new, and how many replaced one.

    Raises:
        ResultsError: the file cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            there = {row.key: row for row in read_rows(path)}
            found = {row.key: row for row in rows}
            new = len(found.keys() - there.keys())
            merged = {**there, **found}
            write_text(path, "".join(to_line(merged[key]) for key in sorted(merged)))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written: {error.strerror or error}") from None
    return new, len(found) - new


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, with its folder.

    Raises:
        OSError: it cannot be written; what stood there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file, made empty where there is none; waits for whoever holds it."""
    while True:
        with path.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            try:
                current = os.path.samestat(os.fstat(stream.fileno()), path.stat())
            except FileNotFoundError:
                current = False
            if current:  # else it was replaced while this process waited
                yield
                return
