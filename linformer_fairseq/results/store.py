"""The file of rows: one run a line, replaced as a whole.

A row may replace an earlier one of the same run, so nothing is appended: under a lock the file is read, merged and
written anew. A reader sees the file before or after, never half a line; of two collectors at once the second waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.locks import Lock
from linformer_fairseq.results.rows import Row, from_line, to_line


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, in its order.

    Raises:
        UserError: there is no such file, or a line is no row; the text names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; make it with: linformer results collect DIR --out {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(from_line(line))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: no row of results: {error}; fix or remove the line") from None
    return rows


def merge_rows(path: Path, rows: Iterable[Row]) -> tuple[int, int]:
    """Put rows into a file, each in the place of the earlier row of the same run.

    Returns:
        How many are new, and how many replaced one.

    Raises:
        UserError: the file cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with Lock(path, wait=True):
            there = {row.key: row for row in read_rows(path)}
            found = {row.key: row for row in rows}
            new = len(found.keys() - there.keys())
            merged = {**there, **found}
            write_file(path, "".join(to_line(merged[key]) for key in sorted(merged)), durable=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
    return new, len(found) - new
