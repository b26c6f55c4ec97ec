"""The file of `linformer evaluate --results`, which `linformer card` reads: scores, and where they come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object, write_json

SCHEMA = 1


@dataclass(frozen=True)
class EvaluationRecord:
    """One evaluation of one checkpoint. It has no host names, and no paths but the last parts of them."""

    schema: int
    sha256: str
    """Of the checkpoint's file."""
    task: str
    """Name of the task, as in its manifest; of its folder where there is no manifest."""
    source: dict[str, str]
    """Where the task's data comes from, as its manifest says it: ``kind``, and of a data set of the hub ``repository``,
    ``config`` and ``revision``."""
    split: str
    examples: int
    scores: dict[str, float]
    """In percent: ``accuracy``, and ``f1`` of a task that has one."""
    majority: float
    """Accuracy in percent of always predicting the most frequent class of the split."""
    command: str
    precision: str
    commit: str
    machine: str
    date: str
    versions: dict[str, str]


def write_evaluation(path: Path, record: EvaluationRecord) -> None:
    """Write a record.

    Raises:
        OSError: it cannot be written.
    """
    write_json(path, asdict(record))


def read_evaluation(path: Path) -> EvaluationRecord:
    """Read a record.

    Raises:
        UserError: the file is missing, damaged, or of another kind; the text names it.
    """
    value: dict[str, Any] = read_object(path, "expected a file of linformer evaluate --results")
    if value.get("schema") != SCHEMA:
        raise UserError(f"{path}: schema {value.get('schema')!r}; expected {SCHEMA}, of linformer evaluate --results")
    try:
        record: EvaluationRecord = load(EvaluationRecord, value)
    except ValueError as error:
        raise UserError(f"{path}: {error}; expected a file of linformer evaluate --results") from None
    return record
