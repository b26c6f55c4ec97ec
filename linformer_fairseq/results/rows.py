"""A row of results: what is kept of one run, as one line of JSON (results/README.md describes it to readers)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from linformer_fairseq.files.json_records import load

SCHEMA = 1

Stage = Literal["pretraining", "finetuning"]
ProjectedDim = int | list[int] | list[list[int]]
"""k: one for all, one per layer, or one per layer and head."""


@dataclass(frozen=True)
class Model:
    """Which model, as far as tables and figures tell models apart."""

    architecture: str
    """fairseq's name for it, such as linformer_roberta_base."""
    family: str
    """roberta or linformer."""
    layers: int
    width: int
    heads: int
    n: int
    """Positions: the longest input, and for a Linformer the columns of E."""
    k: ProjectedDim | None
    sharing: str | None
    projection: str | None
    parameters: int | None
    options: dict[str, str | float] = field(default_factory=dict)
    """Further options of a Linformer that determine what it computes and starts from."""


@dataclass(frozen=True)
class Scale:
    """How large the experiment is: that of its pretraining, also in the row of a finetuning."""

    layers: int
    width: int
    max_update: int | None
    """Updates that pretraining was to take; None where the pretraining is not known."""
    updates: int | None
    """Updates that it has taken."""
    tokens_per_update: int | None
    paper: bool
    """The paper's: 12 layers x 768, and 250,000 updates done."""
    label: str


@dataclass(frozen=True)
class Pretrained:
    """What a finetuning started from."""

    run: str
    """Name of the pretraining's run."""
    checkpoint: str
    """Name of the file, without its folder."""


@dataclass(frozen=True)
class Score:
    """Validation perplexity, or accuracy in percent."""

    final: float | None
    """Value of the last validation; None if it was not finite."""
    best: float
    update: int
    """The first update with the best."""
    f1: float | None = None
    """F1 in percent at that update, where it was logged."""


@dataclass(frozen=True)
class Hardware:
    """What an attempt ran on."""

    processor: str
    accelerator: str
    processes: int
    machines: int


@dataclass(frozen=True)
class Row:
    """One run."""

    schema: int
    identity: str
    """Stays the same when the run is resumed, and differs when a run of the same name is begun anew."""
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
    tokens_per_update: int | None
    tokens: int | None
    """Tokens seen in training, without padding."""
    curve: list[list[int | float | None]]
    """[update, validation perplexity] in order; null where the perplexity is no finite number."""
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

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a row: a file has at most one row with this key."""
        return self.name, self.identity


def to_line(row: Row) -> str:
    """The row as a line of JSON; equal rows give equal lines."""
    return json.dumps(dataclasses.asdict(row), ensure_ascii=False, allow_nan=False) + "\n"


def from_line(line: str) -> Row:
    """Read a line.

    Raises:
        ValueError: it is not JSON, of another schema, or a field is missing or wrong; the text says which.
    """
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"schema {value['schema']!r}; this program knows schema {SCHEMA}")
    return load(Row, value)
