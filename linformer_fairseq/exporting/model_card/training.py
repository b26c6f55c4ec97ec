"""How a model was trained, as tables: one for each training or conversion that its weights went through."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from linformer_fairseq.files.json_records import naming
from linformer_fairseq.files.run_record import COMMANDS
from linformer_fairseq.results.rows import of_planned

from .history import WRONG_KIND, Run, Settings, Stage

NOT_RECORDED = "not recorded"
_OBJECTIVES = {
    "masked_lm": "masked language modelling",
    "sentence_prediction": "classification of texts",
    "bucketed_sentence_prediction": "classification of texts",
}


def heading(stage: Stage) -> str:
    """What a stage was."""
    if stage.run is not None:
        return stage.run.record.stage.capitalize()
    return "Conversion" if stage.conversion else "Training"


def rows(stage: Stage, update: int | None) -> Iterator[tuple[str, str]]:
    """Properties and their values; what no file says is "not recorded".

    Args:
        stage: a training or a conversion.
        update: number of updates that the checkpoint had; None if it was not opened.

    Raises:
        UserError: conversion.json lacks something, or a setting is of another kind.
    """
    if stage.conversion is not None:
        with stage.reading_conversion():
            yield from _conversion(stage.conversion)
    else:
        yield from _training(stage, update)


def _training(stage: Stage, update: int | None) -> Iterator[tuple[str, str]]:
    run, settings = stage.run, stage.settings
    with naming(settings.file, WRONG_KIND):
        objective = _objective(settings)
        updates, batch = _updates(run, settings, update), _batch(run, settings)
        rate, precision = _learning_rate(settings), _precision(settings)
    yield "name", f"`{stage.name}`" + (f", seed {run.record.seed}" if run else _seed(settings))
    if stage.mean_of > 1:
        yield "weights", f"the mean of those of {stage.mean_of} checkpoints; what follows is of the first"
    yield "objective", objective
    yield "started from", f"`{_short(stage.pretrained)}`" if stage.pretrained else _start(run)
    yield "updates", updates
    yield "tokens", f"{run.row.tokens:,} in all updates, without padding" if run and run.row.tokens else NOT_RECORDED
    yield "batch", batch
    yield "learning rate", rate
    yield "optimizer", str(settings.get("optimizer._name") or NOT_RECORDED)
    yield "precision", precision
    if update is None and run is not None and run.row.perplexity is not None:
        yield (
            "lowest perplexity in validation",
            f"{run.row.perplexity.best:.2f}, after update {run.row.perplexity.update:,}",
        )
    yield from _circumstances(run)


def _objective(settings: Settings) -> str:
    task, weight = settings.get("task._name"), settings.get("criterion.label_weight")
    if task is None:
        return NOT_RECORDED
    if settings.get("criterion.regression_target"):
        return "prediction of numbers from texts"
    soft = "" if weight is None else f", with soft labels of a teacher (weight of labels {weight:g})"
    return _OBJECTIVES.get(str(task), f"task `{task}`") + soft


def _seed(settings: Settings) -> str:
    seed = settings.get("common.seed")
    return "" if seed is None else f", seed {seed}"


def _start(run: Run | None) -> str:
    return NOT_RECORDED if run is None else "random weights"


def _updates(run: Run | None, settings: Settings, update: int | None) -> str:
    if run is not None:
        made = f"{of_planned(run.row.updates, run.row.max_update)}, {run.row.status}"
        return made if update in (None, run.row.updates) else f"{update:,}, of a run with {made}"
    if not update:
        return NOT_RECORDED
    return of_planned(update, settings.get("optimization.max_update") or 0)


def _batch(run: Run | None, settings: Settings) -> str:
    if run is not None and run.record.tokens_per_update:
        return f"{run.record.tokens_per_update:,} tokens in each update, with padding"
    accumulated = settings.get("optimization.update_freq")
    processes = settings.get("distributed_training.distributed_world_size")
    if accumulated is None or processes is None:
        return NOT_RECORDED
    batches = processes * (accumulated if isinstance(accumulated, int) else accumulated[0])
    limits = [
        f"{most * batches:,} {unit}"
        for unit, most in (
            ("examples", settings.get("dataset.batch_size")),
            ("tokens, with padding,", settings.get("dataset.max_tokens")),
        )
        if most
    ]
    return f"at most {' and '.join(limits)} in each update" if limits else NOT_RECORDED


def _learning_rate(settings: Settings) -> str:
    rates = settings.get("optimization.lr")
    if rates is None:
        return NOT_RECORDED
    rate = rates if isinstance(rates, int | float) else rates[0]
    schedule = settings.get("lr_scheduler._name")
    warmup = settings.get("lr_scheduler.warmup_updates")
    return ", ".join(
        [f"{rate:g}", *([schedule] if schedule else []), *([f"{warmup:,} warm-up updates"] if warmup else [])]
    )


def _precision(settings: Settings) -> str:
    names = ("fp16", "bf16", "amp")
    values = [settings.get(f"common.{name}") for name in names]
    if values[0] is None:
        return NOT_RECORDED
    return next((name for name, value in zip(names, values, strict=True) if value), "fp32")


def _circumstances(run: Run | None) -> Iterator[tuple[str, str]]:
    """Hardware, dates, time, commit and command."""
    if run is None:
        yield "hardware, dates, commit", NOT_RECORDED
        return
    row = run.row
    used = []
    for hardware in row.hardware:
        accelerator = "no GPU" if hardware.accelerator == "none" else f"{hardware.accelerator} on each machine"
        used.append(
            f"{hardware.machines} x {hardware.processor}; {accelerator}; {hardware.processes} "
            f"process{'es' if hardware.processes > 1 else ''}"
        )
    yield "hardware", "; then ".join(used)
    first, last = row.started[:10], row.ended[:10] if row.ended else "an end that is not recorded"
    yield "dates", first if first == last else f"{first} to {last}"
    lost = f", without {row.attempts_without_end} starts whose end is not known" if row.attempts_without_end else ""
    starts = f" in {row.attempts} starts" if row.attempts > 1 else ""
    yield "time", f"{timedelta(seconds=row.wall_seconds)} (h:mm:ss){starts}{lost}"
    yield "commit", row.commit
    yield "versions", ", ".join(f"{name} {version}" for name, version in row.versions.items()) or NOT_RECORDED
    words = [_without_folders(word) for word in run.record.overrides]
    yield "command", f"`{shlex.join(['linformer', COMMANDS[run.record.stage], *words])}`"


def _without_folders(word: str) -> str:
    """An override with only the last part of each absolute path, which means nothing on another machine."""
    key, equals, value = word.partition("=")
    quote = value[:1] if value[:1] in ("'", '"') and value[:1] == value[-1:] else ""
    parts = value.removeprefix(quote).removesuffix(quote).split(":")
    return f"{key}{equals}{quote}{':'.join(_short(part) if part.startswith('/') else part for part in parts)}{quote}"


def _short(path: str) -> str:
    """The last part of a path; of a file whose name says little, its folder, too."""
    parts = Path(path).parts
    return "/".join(parts[-2:] if Path(path).suffix else parts[-1:])


def _conversion(record: Any) -> Iterator[tuple[str, str]]:
    source, choices = record["source"], record["choices"]
    yield "source", f"{source['kind']} `{source['name']}`, n = {source['max_positions']:,}"
    yield "E and F start as", f"`{choices['start']}`, seed {choices['seed']}"
    yield "position embeddings", record["position_embeddings"]
    for note in record["notes"]:
        yield "note", note
    for found in (record["comparison"] or {}).get("perplexity", []):
        yield (
            f"perplexity of masked tokens before training, {found['blocks']:,} blocks of {found['length']:,} tokens",
            f"{found['result']:.2f} (the source: {found['source']:.2f}), on `{record['comparison']['text']}`",
        )
    yield "training after the conversion", "none up to here"
    yield "date", record["date"]
    yield "versions", ", ".join(f"{name} {version}" for name, version in record["versions"].items())
