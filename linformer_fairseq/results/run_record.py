"""What the results take from a run's run.json, with types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq import run_json
from linformer_fairseq.results.errors import ResultsError
from linformer_fairseq.results.rows import ProjectedDim
from linformer_fairseq.results.typed_json import load


@dataclass(frozen=True)
class RecordedHardware:
    """What an attempt ran on."""

    processor: str
    accelerator: str | None
    hosts: list[str]


@dataclass(frozen=True)
class Attempt:
    """One start of the run; the times are ISO 8601, and the end is missing while it runs or if it was killed."""

    start: str
    status: str
    hardware: RecordedHardware
    world_size: int
    end: str | None = None
    updates_at_end: int | None = None


@dataclass(frozen=True)
class PaperTags:
    """Where the paper shows the run: panels of Figure 3, row of Table 2."""

    figure3: list[str] | None = None
    table2: str | None = None


@dataclass(frozen=True)
class Record:
    """What is read of run.json."""

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
    pretrained: str | None = None
    parameters: int | None = None
    tokens_per_update: int | None = None


@dataclass(frozen=True)
class Options:
    """What is read of the model's options."""

    _name: str
    encoder_layers: int
    encoder_embed_dim: int
    encoder_attention_heads: int
    max_positions: int
    projected_dim: ProjectedDim | str | None = None
    sharing: str | None = None
    projection: str | None = None
    projection_init: str | None = None
    projection_step: float | None = None
    row_weights: str | None = None
    short_inputs: str | None = None
    attention_start: str | None = None


def read_record(folder: Path) -> Record:
    """Read a folder's run.json.

    Raises:
        ResultsError: it is missing or damaged; the text names the file and says what is wrong.
    """
    path = folder / run_json.NAME
    try:
        record = load(Record, run_json.read(folder))
    except FileNotFoundError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror}") from None
    except run_json.RunJsonError as error:
        raise ResultsError(str(error)) from None
    except ValueError as error:
        raise ResultsError(f"{path}: {error}") from None
    if record.stage not in ("pretraining", "finetuning"):
        raise ResultsError(f"{path}: stage: expected pretraining or finetuning, found {record.stage!r}")
    return record
