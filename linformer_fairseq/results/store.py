"""The file of rows: one line per run, written atomically.

A row may replace an earlier one of the same run, so nothing is appended: under a lock, the file is read, merged and
rewritten. Readers see the old or the new file, never half a line; of two concurrent writers, the second waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.files.atomic import make_folder, write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.locks import Lock
from linformer_fairseq.results.rows import Row, from_line, to_line


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, in its order.

    Raises:
        UserError: there is no such file, or a line is not a row; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; make it with: linformer results collect DIR --out {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    # not splitlines(), which also splits at U+2028 and others, that a text in a row may have
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        try:
            rows.append(from_line(line))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not a row of results: {error}; fix or remove the line") from None
    return rows


def merge_rows(path: Path, rows: Iterable[Row]) -> tuple[int, int, list[Row]]:
    """Merge rows into a file; each replaces the earlier row of the same run, unless that is of a later state of it.

    Returns:
        The number of new rows and of replaced ones, and the rows that replace none.

    Raises:
        UserError: the file cannot be read or written.
    """
    try:
        make_folder(path.parent)
        with Lock(path, wait=True):
            there = {row.key: row for row in read_rows(path)}
            given = {row.key: row for row in rows}
            older = [row for key, row in given.items() if key in there and row.progress < there[key].progress]
            found = {key: row for key, row in given.items() if row not in older}
            new = len(found.keys() - there.keys())
            merged = {**there, **found}
            write_file(path, "".join(to_line(merged[key]) for key in sorted(merged)), durable=True)
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None
    return new, len(found) - new, older
