"""Accuracy and training time of any finetunings: a table by model and task, with medians over runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object
from linformer_fairseq.results.paper import TASKS
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.selection import (
    UNKNOWN_OPTIONS,
    changed_settings,
    counted_windows,
    distinct_names,
    newest,
    provenance,
    training_hours,
)
from linformer_fairseq.results.tables import Table, spread

_LEGEND = (
    "Best validation accuracy of each run in percent, which is chosen on the data that is reported: the median over "
    "runs; in brackets lowest to highest and number of runs, each with another seed of pretraining or finetuning. "
    f"{UNKNOWN_OPTIONS} "
    "Minutes of training: tokens by the median speed of the log's intervals, the median over runs."
)

_CONTROLS = (
    "Bag of words: tf-idf of words and pairs of neighbouring words with logistic regression (scikit-learn), on the "
    "whole texts."
)
TRUNCATED = "bag of words, truncated texts"


@dataclass(frozen=True)
class Truncated:
    """The bag of words on texts that are truncated as the inputs of models."""

    positions: int
    """The most tokens of an example."""
    bag_of_words: float
    """Accuracy in percent."""


@dataclass(frozen=True)
class Control:
    """Baselines without a pretrained model, on one task."""

    task: str
    bag_of_words: float
    """Accuracy in percent of tf-idf with logistic regression."""
    majority: float
    """Accuracy in percent of always predicting train's most frequent class."""
    truncated: Truncated | None = None
    """None: not measured."""


def read_controls(paths: Iterable[Path]) -> list[Control]:
    """Read the files that ``python -m scripts.reproduce_tools.bag_of_words`` writes.

    Raises:
        UserError: a file cannot be read, or is another kind of file; two files have the same task.
    """
    controls: dict[str, Control] = {}
    for path in paths:
        try:
            control = load(Control, read_object(path))
        except ValueError as error:
            raise UserError(f"{path}: {error}; expected a file of scripts.reproduce_tools.bag_of_words") from None
        if control.task in controls:
            raise UserError(f"{path}: task {control.task}, as in an earlier file; give one file for each task")
        controls[control.task] = control
    return list(controls.values())


def accuracy_table(rows: Iterable[Row], controls: Sequence[Control] = ()) -> tuple[list[Table], list[str]]:
    """The table and the notes below it; unfinished runs are listed there and not counted.

    Args:
        rows: of any runs.
        controls: shown above the models, for tasks with finetunings.
    """
    runs, notes = newest(row for row in rows if row.stage == "finetuning" and row.task)
    unfinished = [row.name for row in runs if not row.finished or row.accuracy is None]
    if unfinished:
        notes.append(f"Not counted, unfinished or without an accuracy: {', '.join(unfinished)}.")
    done = [row for row in runs if row.finished and row.accuracy is not None]
    notes += [*changed_settings(done), *counted_windows(done)]
    tasks = sorted({str(row.task) for row in done}, key=lambda task: (task not in TASKS, task))
    lines = [["", *(heading for task in tasks for heading in (TASKS.get(task, task), "minutes"))]]
    groups: dict[str, list[Row]] = {}
    for row, name in sorted(zip(done, distinct_names(done), strict=True), key=lambda pair: _order(*pair)):
        groups.setdefault(name, []).append(row)
    by_task = {control.task: control for control in controls}
    if by_task.keys() & set(tasks):
        shown = [by_task.get(task) for task in tasks]
        lines += [[row[0], *(cell for value in row[1:] for cell in (value, "-"))] for row in control_rows(shown)]
        notes.append(f"{_CONTROLS}{truncated_note(shown)}")
    for name, group in groups.items():
        cells = (cell for task in tasks for cell in _cells([row for row in group if row.task == task]))
        lines.append([name, *cells])
    return [Table("Finetuning", lines)], [_LEGEND, *notes, provenance(done) if done else "No finetunings."]


def control_rows(controls: Sequence[Control | None]) -> list[list[str]]:
    """Rows of a table with a column for each task: the baselines, those that were measured."""
    rows = [
        ["always the most frequent answer", *(f"{one.majority:.1f}" if one else "-" for one in controls)],
        ["bag of words", *(f"{one.bag_of_words:.1f}" if one else "-" for one in controls)],
    ]
    truncated = [one.truncated if one else None for one in controls]
    if any(truncated):
        rows.append([TRUNCATED, *(f"{one.bag_of_words:.1f}" if one else "-" for one in truncated)])
    return rows


def truncated_note(controls: Sequence[Control | None]) -> str:
    """What the row of truncated texts means, as a sentence after another; nothing without that row."""
    positions = {one.truncated.positions for one in controls if one and one.truncated}
    if not positions:
        return ""
    return f" Truncated texts: at most {' or '.join(map(str, sorted(positions)))} tokens."


def _order(row: Row, name: str) -> tuple[object, ...]:
    return row.model.family != "roberta", row.model.n, name, row.seed


def _cells(runs: Sequence[Row]) -> tuple[str, str]:
    hours = [hours for row in runs if (hours := training_hours(row)) is not None]
    return (
        spread([row.accuracy.best for row in runs if row.accuracy]),
        f"{60 * statistics.median(hours):.1f}" if hours else "-",
    )
