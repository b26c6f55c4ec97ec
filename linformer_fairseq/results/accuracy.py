"""Accuracy and training time of any finetunings: a table by model and task, with medians over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object
from linformer_fairseq.results.paper import TASKS
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.selection import distinct_names, newest, provenance, training_hours
from linformer_fairseq.results.tables import Table, spread

_LEGEND = (
    "Best validation accuracy of each run in percent, which is chosen on the data that is reported: the median over "
    "seeds; in brackets lowest to highest and number of seeds. Minutes of training: tokens by the median speed of the "
    "log's intervals, the median over seeds."
)

_CONTROLS = (
    "Bag of words: tf-idf of words and pairs of neighbouring words with logistic regression (scikit-learn), on the "
    "whole texts."
)
TRUNCATED = "bag of words, truncated texts"
_TRUNCATED = "Truncated texts: the tokens that the models read."


@dataclass(frozen=True)
class Control:
    """Baselines without a pretrained model, on one task."""

    task: str
    bag_of_words: float
    """Accuracy in percent of tf-idf with logistic regression."""
    majority: float
    """Accuracy in percent of always predicting train's most frequent class."""
    bag_of_words_truncated: float | None = None
    """The bag of words on texts that are truncated as the models' inputs; None: not measured."""


def read_controls(paths: Iterable[Path]) -> list[Control]:
    """Read the files that ``python -m scripts.reproduce_tools.bag_of_words`` writes.

    Raises:
        UserError: a file cannot be read, or is another kind of file.
    """
    controls = []
    for path in paths:
        try:
            controls.append(load(Control, read_object(path)))
        except ValueError as error:
            raise UserError(f"{path}: {error}; expected a file of scripts.reproduce_tools.bag_of_words") from None
    return controls


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
    tasks = sorted({str(row.task) for row in done}, key=lambda task: (task not in TASKS, task))
    lines = [["", *(heading for task in tasks for heading in (TASKS.get(task, task), "minutes"))]]
    groups: dict[str, list[Row]] = {}
    for row, name in sorted(zip(done, distinct_names(done), strict=True), key=lambda pair: _order(*pair)):
        groups.setdefault(name, []).append(row)
    by_task = {control.task: control for control in controls}
    if by_task.keys() & set(tasks):
        lines.append(["always the most frequent answer", *_control_cells(tasks, by_task, "majority")])
        lines.append(["bag of words", *_control_cells(tasks, by_task, "bag_of_words")])
        notes.append(_CONTROLS)
        if any(task in by_task and by_task[task].bag_of_words_truncated is not None for task in tasks):
            lines.append([TRUNCATED, *_control_cells(tasks, by_task, "bag_of_words_truncated")])
            notes.append(_TRUNCATED)
    for name, group in groups.items():
        cells = (cell for task in tasks for cell in _cells([row for row in group if row.task == task]))
        lines.append([name, *cells])
    return [Table("Finetuning", lines)], [_LEGEND, *notes, provenance(done) if done else "No finetunings."]


def _control_cells(tasks: Iterable[str], controls: Mapping[str, Control], field: str) -> list[str]:
    values = [getattr(controls[task], field) if task in controls else None for task in tasks]
    return [cell for value in values for cell in (optional(value), "-")]


def optional(accuracy: float | None) -> str:
    """An accuracy in a table; a dash if it was not measured."""
    return "-" if accuracy is None else f"{accuracy:.1f}"


def _order(row: Row, name: str) -> tuple[object, ...]:
    return row.model.family != "roberta", row.model.n, name, row.seed


def _cells(runs: Sequence[Row]) -> tuple[str, str]:
    hours = [hours for row in runs if (hours := training_hours(row)) is not None]
    return (
        spread([row.accuracy.best for row in runs if row.accuracy]),
        f"{60 * statistics.median(hours):.1f}" if hours else "-",
    )
