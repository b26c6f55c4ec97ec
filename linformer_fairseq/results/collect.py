"""Collects the runs in folders as rows, with remarks about incomplete ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from linformer_fairseq.files import run_record
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.walking import walk
from linformer_fairseq.results.rows import Row, of_planned
from linformer_fairseq.results.run_row import read_run


@dataclass
class Collected:
    """Rows of the runs, and remarks about them."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """A sentence for each folder that could not be read; it begins with the folder."""
    remarks: list[str] = field(default_factory=list)
    """The same for runs that were collected, but are unfinished or had changing settings, and for copies."""


def collect(folders: Iterable[Path]) -> Collected:
    """Read all runs in and below ``folders``.

    Raises:
        UserError: one of them is not a folder.
    """
    found = Collected()
    best: dict[tuple[str, str], tuple[Row, Path]] = {}
    seen: dict[Path, Row] = {}
    for run in _run_folders(folders, found.left_out):
        try:
            row = read_run(run, seen)
        except UserError as error:
            found.left_out.append(str(error))
            continue
        if row.key in best:
            other, kept = sorted([(row, run), best[row.key]], key=lambda pair: pair[0].progress)
            found.remarks.append(f"{other[1]}: left out: the same run as {kept[1]}, which is as far or further")
            best[row.key] = kept
        else:
            best[row.key] = row, run
    for row, run in best.values():
        found.rows.append(row)
        if not row.finished:
            found.remarks.append(
                f"{run}: counted as unfinished: {of_planned(row.updates, row.max_update)} updates "
                f"({row.status}{', or killed' * (row.status == 'running')})"
            )
        if row.changed:
            found.remarks.append(f"{run}: settings were changed when it was resumed: {', '.join(row.changed)}")
    return found


def _run_folders(folders: Iterable[Path], left_out: list[str]) -> list[Path]:
    """Folders with a record in and below ``folders``; those of finetunings are in that of their pretraining."""
    runs: dict[Path, Path] = {}  # by resolved path: a folder may be given twice, or within another
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: {'is a file' if folder.exists() else 'no such folder'}; give a folder of runs")
        contents = walk(folder)
        left_out += [f"{closed}: cannot be read: {reason}" for closed, reason in contents.unreadable.items()]
        for run in sorted(path.parent for path in contents.files if path.name == run_record.NAME):
            runs.setdefault(run.resolve(), run)
    return list(runs.values())
