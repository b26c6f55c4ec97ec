"""run.json, which the launcher keeps in a run's folder and `linformer results` reads: name, schema, and its form.

`linformer_fairseq.launch.run_folder` says what all is in it; here are the parts that others read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object, shortened
from linformer_fairseq.files.task_inputs import TaskInputs

NAME = "run.json"
LOCK = ".lock"
"""The file beside it that the run holds while it is active."""
SCHEMA = 1
COMMANDS = {"pretraining": "pretrain", "finetuning": "finetune"}
"""The two stages, each with the command of `linformer` that starts its runs."""


@dataclass(frozen=True)
class RecordedHardware:
    """What an attempt ran on."""

    processor: str
    accelerator: str | None
    hosts: list[str]
    """Where its processes ran: ``HOST (process ID)`` for each of several, ``HOST`` for one."""

    @property
    def machines(self) -> int:
        """The number of different hosts."""
        return len({host.partition(" (process ")[0] for host in self.hosts})


@dataclass(frozen=True)
class Attempt:
    """One start of the run; the times are ISO 8601, and the end is missing while it runs or if it was killed."""

    start: str
    status: str
    hardware: RecordedHardware
    world_size: int
    end: str | None = None
    updates_at_end: int | None = None
    changed: list[str] = field(default_factory=list)
    """Options with another value than at the start before: each with both; empty in records of earlier versions."""


@dataclass(frozen=True)
class PaperTags:
    """Where the paper shows the run: panels of Figure 3, row of Table 2."""

    figure3: list[str] | None = None
    table2: str | None = None


@dataclass(frozen=True)
class Record:
    """The fields of run.json that are read."""

    stage: str
    name: str
    seed: int
    paper: PaperTags
    commit: str | None
    versions: dict[str, str | None]
    model: dict[str, Any]
    max_update: int
    attempts: list[Attempt]
    experiment: str | None = None
    task: str | None = None
    lr: float | None = None
    label_weight: float | None = None
    """Of a finetuning with soft labels: the weight of the labels."""
    pretrained: str | None = None
    finetune_from_model: str | None = None
    """Also without ``pretrained``, by fairseq's own option; none in records of earlier versions."""
    parameters: int | None = None
    tokens_per_update: int | None = None
    data: str | None = None
    dictionaries: dict[str, str] = field(default_factory=dict)
    """Digests, see `checkpoints.dictionaries`; none in records of earlier versions."""
    inputs: TaskInputs | None = None
    """Of a finetuning; none in records of earlier versions."""
    overrides: list[str] = field(default_factory=list)

    @property
    def start(self) -> str | None:
        """The checkpoint whose weights the run started from, if any."""
        return self.pretrained or self.finetune_from_model


def read(folder: Path) -> dict[str, Any]:
    """The object in a folder's run.json.

    Raises:
        UserError: it is missing, damaged or of another schema; the text names the file and says what is wrong.
    """
    path = folder / NAME
    value = read_object(path)
    if value.get("schema") != SCHEMA:
        raise UserError(f"{path}: schema {shortened(value.get('schema'))}; this program knows schema {SCHEMA}")
    return value


def read_record(folder: Path) -> Record:
    """The same with types.

    Raises:
        UserError: see `read`; or a field is missing or has another type.
    """
    return typed(folder, read(folder))


def typed(folder: Path, value: dict[str, Any]) -> Record:
    """The fields of what `read` returned.

    Raises:
        UserError: a field is missing or has another type.
    """
    path = folder / NAME
    try:
        record: Record = load(Record, value)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    if record.stage not in COMMANDS:
        raise UserError(f"{path}: stage: expected {' or '.join(COMMANDS)}, found {shortened(record.stage)}")
    return record
