"""A row of results: the data of one run, as one line of JSON (described in results/README.md)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from linformer_fairseq.files.json_records import load, parse, shortened

SCHEMA = 1

_LATER = ("changed", "label_weight", "windows")
"""Fields that are left out where they say nothing, so that rows of earlier versions stay as they are."""

ProjectedDim = int | list[int] | list[list[int]]
"""k: one for all, one per layer, or one per layer and head."""


@dataclass(frozen=True)
class Model:
    """The properties by which tables and figures distinguish models."""

    architecture: str
    """fairseq's name for it, such as linformer_roberta_base."""
    family: str
    """roberta or linformer; performer or nystrom for the models of scripts/rivals."""
    layers: int
    width: int
    heads: int
    n: int
    """Maximum input length, and for a Linformer the columns of E."""
    k: ProjectedDim | None
    """Rows that queries attend to: a Linformer's k, Performer's features, Nystrom's landmarks; None for a RoBERTa."""
    sharing: str | None
    projection: str | None
    parameters: int | None
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    """Further options of a Linformer's computation and initialization."""


@dataclass(frozen=True)
class Scale:
    """The scale of the experiment: that of its pretraining, also in the row of a finetuning."""

    layers: int
    width: int
    max_update: int | None
    """Planned updates of the pretraining; 0 if their number is not known, None if the pretraining is not."""
    updates: int | None
    """Updates that were made."""
    tokens_per_update: int | None
    paper: bool
    """The paper's: 12 layers x 768, and 250,000 updates done."""
    label: str


@dataclass(frozen=True)
class Pretrained:
    """The checkpoint that a run started from: a finetuning, or the pretraining of a converted model."""

    run: str
    """Name of the pretraining's run, or of the model's folder."""
    checkpoint: str
    """Name of the file, without its folder."""


@dataclass(frozen=True)
class Score:
    """Validation perplexity, or accuracy in percent."""

    final: float | None
    """Value of the last validation; None if it was not finite."""
    best: float
    update: int
    """The first update with the best value."""
    f1: float | None = None
    """F1 in percent at that update, if it was logged."""


@dataclass(frozen=True)
class Hardware:
    """The hardware of an attempt."""

    processor: str
    accelerator: str
    processes: int
    machines: int


@dataclass(frozen=True)
class Row:
    """One run."""

    schema: int
    identity: str
    """Stays the same when the run is resumed; differs if a run of the same name is started again."""
    name: str
    stage: str
    experiment: str | None
    seed: int
    task: str | None
    lr: float | None
    pretrained: Pretrained | None
    figure3: list[str]
    """Panels of the paper's Figure 3 that the run belongs to."""
    table2: str | None
    """Name of the row in the paper's Table 2 that the run belongs to."""
    model: Model
    scale: Scale
    finished: bool
    status: str
    """Status of the last attempt: running, finished, stopped or failed."""
    updates: int
    max_update: int
    """Planned updates; 0 if their number is not known: those of epochs, before the run has finished."""
    tokens_per_update: int | None
    tokens: int | None
    """Tokens seen in training, without padding."""
    curve: list[list[int | float | None]]
    """[update, validation perplexity] in order; null if the perplexity is not finite."""
    perplexity: Score | None
    accuracy: Score | None
    started: str
    ended: str | None
    wall_seconds: int
    """Sum over the attempts whose end is known."""
    attempts: int
    attempts_without_end: int
    commit: str
    hardware: list[Hardware]
    versions: dict[str, str]
    tokens_per_second: float | None = None
    """Speed of training, padding excluded: the median over the intervals of the log."""
    changed: list[str] = field(default_factory=list)
    """Options of training that were changed when the run was resumed."""
    label_weight: float | None = None
    """Of a finetuning with soft labels: the weight of the labels."""
    windows: bool = False
    """Whether the examples of a finetuning are windows of longer texts, of which each counts in its scores."""

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a row: a file has at most one row with this key."""
        return self.name, self.identity

    @property
    def progress(self) -> tuple[int, bool, int]:
        """Of two states of a run, the later one has the larger value or an equal one."""
        return self.attempts, self.finished, self.updates


def of_planned(updates: int, planned: int) -> str:
    """Updates that were made, such as "9 of 20", or just "9" if it is not known how many are planned."""
    return f"{updates:,} of {planned:,}" if planned else f"{updates:,}"


def to_line(row: Row) -> str:
    """The row as a line of JSON; equal rows give equal lines."""
    fields = dataclasses.asdict(row)
    for name in _LATER:
        if fields[name] is None or fields[name] is False or fields[name] == []:
            del fields[name]
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


def from_line(line: str) -> Row:
    """Read a line.

    Raises:
        ValueError: it is not JSON, has another schema, or a field is missing or wrong; the message says which.
    """
    try:
        value: Any = parse(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"schema {shortened(value['schema'])}; this program knows schema {SCHEMA}")
    return load(Row, value)
