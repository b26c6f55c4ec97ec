"""Makes the row of a run from run.json and train.log in its folder."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from linformer_fairseq.files import run_record
from linformer_fairseq.files.cuts import WINDOWS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, parse, shortened
from linformer_fairseq.files.run_record import Attempt, Record, read_record
from linformer_fairseq.results.paper import PAPER_LAYERS, PAPER_UPDATES, PAPER_WIDTH
from linformer_fairseq.results.rows import (
    SCHEMA,
    Hardware,
    Model,
    Pretrained,
    ProjectedDim,
    Row,
    Scale,
    Score,
    of_planned,
)
from linformer_fairseq.results.training_log import TrainingLog, read_log

LOG = "train.log"
_OPTIONS = (
    *("projection_init", "projection_step", "freeze_projection", "row_weights", "short_inputs", "kernel_strides"),
    "attention_start",
)
# Not those of the model, with which a run cannot be resumed, nor those of batches: updates stay as large.
_OF_TRAINING = (
    *("task.", "criterion.", "optimizer.", "lr_scheduler.", "ema.", "optimization.clip_norm"),
    *("run.tokens_per_update", "run.sentences_per_update", "run.precision"),
)


@dataclass(frozen=True)
class Options:
    """The options of the model that are read."""

    _name: str
    encoder_layers: int
    encoder_embed_dim: int
    encoder_attention_heads: int
    max_positions: int
    encoder_layers_to_keep: str | None = None
    projected_dim: ProjectedDim | str | None = None
    sharing: str | None = None
    projection: str | None = None
    projection_init: str | None = None
    projection_step: float | None = None
    freeze_projection: bool | None = None
    row_weights: str | None = None
    short_inputs: str | None = None
    kernel_strides: int | None = None
    attention_start: str | None = None
    features: int | None = None
    landmarks: int | None = None


def read_run(folder: Path, seen: dict[Path, Row] | None = None) -> Row:
    """The row of one run, finished or not.

    Args:
        folder: the run's.
        seen: cache of pretrainings by folder, extended here: many finetunings share a pretraining.

    Raises:
        UserError: run.json is damaged, or the run was never started; the message names the folder.
    """
    record = read_record(folder)
    if not record.attempts:
        raise UserError(f"{folder / run_record.NAME}: no attempts: the run was never started")
    try:
        log = read_log(folder / LOG)
    except FileNotFoundError:
        log = TrainingLog()
    except OSError as error:
        raise UserError(f"{folder / LOG}: cannot be read: {error.strerror or error}") from None
    last = record.attempts[-1]
    updates = log.updates if last.updates_at_end is None else last.updates_at_end
    try:
        model = _model(record)
        spans = [_seconds(attempt) for attempt in record.attempts]
    except ValueError as error:
        raise UserError(f"{folder / run_record.NAME}: {error}") from None
    finished = last.status == "finished"
    pretraining, pretrained = _pretraining(folder, record, {} if seen is None else seen)
    return Row(
        schema=SCHEMA,
        identity=_identity(record),
        name=record.name,
        stage=record.stage,
        experiment=record.experiment,
        seed=record.seed,
        task=record.task,
        lr=record.lr,
        pretrained=pretrained,
        figure3=record.paper.figure3 or [],
        table2=record.paper.table2 or (pretraining.table2 if pretraining else None),
        model=model,
        scale=pretraining.scale if pretraining else _scale(record, model, updates, finished),
        finished=finished,
        status=last.status,
        updates=updates,
        max_update=_wanted(record, updates, finished),
        tokens_per_update=record.tokens_per_update,
        tokens=log.tokens,
        curve=[[update, p if math.isfinite(p) else None] for update, p in sorted(log.perplexity.items())],
        perplexity=_score(log.perplexity, min),
        accuracy=_score(log.accuracy, max, log.f1),
        started=record.attempts[0].start,
        ended=last.end,
        wall_seconds=round(sum(filter(None, spans))),
        attempts=len(spans),
        attempts_without_end=spans.count(None),
        commit=record.commit or "unknown",
        hardware=_hardware(record.attempts),
        versions={name: version for name, version in sorted(record.versions.items()) if version is not None},
        tokens_per_second=log.tokens_per_second,
        changed=_changed(record.attempts),
        label_weight=record.label_weight,
        windows=record.inputs is not None and record.inputs.cut == WINDOWS,
    )


def _changed(attempts: Sequence[Attempt]) -> list[str]:
    """The options of training whose values differed between attempts; not where data lie, or how many processes."""
    names = {text.partition(":")[0] for attempt in attempts for text in attempt.changed} - {"task.data"}
    if "optimizer._name" in names:  # the others are those that only one of the two optimizers has
        names = {name for name in names if not name.startswith("optimizer.")} | {"optimizer._name"}
    return sorted(name for name in names if name.startswith(_OF_TRAINING))


def _identity(record: Record) -> str:
    first = record.attempts[0]
    text = json.dumps([record.stage, record.name, record.seed, first.start, first.hardware.hosts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _model(record: Record) -> Model:
    options = load(Options, record.model, "model")
    kept = options.encoder_layers_to_keep
    is_linformer = options._name.startswith("linformer")
    k = options.projected_dim if is_linformer else options.features or options.landmarks
    if isinstance(k, str):  # as on fairseq-train's command line
        try:
            k = load(ProjectedDim, parse(k), "model.projected_dim")
        except ValueError:
            raise ValueError(f"model.projected_dim: expected a number or a list, found {shortened(k)}") from None
    return Model(
        architecture=options._name,
        family="linformer" if is_linformer else options._name.partition("_")[0],
        layers=len(kept.split(",")) if kept else options.encoder_layers,
        width=options.encoder_embed_dim,
        heads=options.encoder_attention_heads,
        n=options.max_positions,
        k=k,
        sharing=options.sharing if is_linformer else None,
        projection=options.projection if is_linformer else None,
        parameters=record.parameters,
        options={name: value for name in _OPTIONS if (value := getattr(options, name)) is not None},
    )


def _pretraining(folder: Path, record: Record, seen: dict[Path, Row]) -> tuple[Row | None, Pretrained | None]:
    """The row of the pretraining that a finetuning started from, if its folder exists, and what is known; for a
    pretraining, what is known of the model that it started from, such as a converted one."""
    checkpoint = Path(record.start) if record.start else None
    if record.stage != "finetuning":
        return None, Pretrained(checkpoint.parent.name, checkpoint.name) if checkpoint else None
    name = record.name.rpartition("/")[0]
    for candidate in ([checkpoint.parent] if checkpoint else []) + [folder.parent]:
        if candidate not in seen and (candidate / run_record.NAME).is_file():
            with suppress(UserError):  # it is reported when it is collected itself
                if read_record(candidate).stage == "pretraining":
                    seen[candidate] = read_run(candidate)
        if candidate in seen:
            return seen[candidate], Pretrained(seen[candidate].name, checkpoint.name if checkpoint else "")
    if checkpoint:
        return None, Pretrained(name or checkpoint.parent.name, checkpoint.name)
    return None, Pretrained(name, "") if name else None


def _wanted(record: Record, updates: int, finished: bool) -> int:
    """The number of updates of the whole run, which may have made more than are wanted now; with max_epoch alone, it is
    known when the run has finished, and 0 before."""
    return max(record.max_update, updates) if record.max_update or finished else 0


def _scale(record: Record, model: Model, updates: int, finished: bool) -> Scale:
    size = f"{model.layers} layers x {model.width}"
    if record.stage == "finetuning":
        return Scale(model.layers, model.width, None, None, None, False, f"{size}, pretraining unknown")
    wanted = _wanted(record, updates, finished)
    done = f"{wanted:,}" if finished and updates >= wanted else of_planned(updates, wanted)
    tokens = f" of {record.tokens_per_update:,} tokens" if record.tokens_per_update else ""
    return Scale(
        layers=model.layers,
        width=model.width,
        max_update=wanted,
        updates=updates,
        tokens_per_update=record.tokens_per_update,
        paper=(model.layers, model.width) == (PAPER_LAYERS, PAPER_WIDTH) and finished and updates >= PAPER_UPDATES,
        label=f"{size}, {done} updates{tokens}",
    )


def _score(values: dict[int, float], best: Any, f1: dict[int, float] | None = None) -> Score | None:
    finite = {update: value for update, value in sorted(values.items()) if math.isfinite(value)}
    if not finite:
        return None
    update = best(finite, key=finite.__getitem__)  # the first of equal ones
    return Score(finite.get(max(values)), finite[update], update, (f1 or {}).get(update))


def _seconds(attempt: Attempt) -> float | None:
    """Duration of an attempt; None if its end is not known: it was killed or is running."""
    start = _time(attempt.start)
    if not attempt.end:
        return None
    end = _time(attempt.end)
    if (start.tzinfo is None) != (end.tzinfo is None):
        raise ValueError(f"attempts: only one of the times {attempt.start} and {attempt.end} has a time zone")
    return (end - start).total_seconds()


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"attempts: {shortened(text)} is no time; expected ISO 8601") from None


def _hardware(attempts: Iterable[Attempt]) -> list[Hardware]:
    found = {}  # in order, without duplicates
    for a in attempts:
        found[Hardware(a.hardware.processor, a.hardware.accelerator or "none", a.world_size, a.hardware.machines)] = 1
    return list(found)
