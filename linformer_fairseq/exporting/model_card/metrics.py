"""The scores of a model, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq.exporting.trained import CheckpointModel
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.evaluation_record import EvaluationRecord, read_evaluation
from linformer_fairseq.files.provenance import sha256

from .data import Data
from .history import Run, Stage

PERPLEXITY, ACCURACY, F1, LOSS = "perplexity", "accuracy", "f1", "loss"
_PERCENT = (ACCURACY, F1)


@dataclass(frozen=True)
class Metric:
    """One score."""

    kind: str
    value: float
    """In percent, where it is a share."""
    data: str
    split: str | None
    origin: str
    """What measured it, when, on what machine and with which commit."""
    repository: str | None = None
    """Of a data set of the hub, as are the next two."""
    config: str | None = None
    revision: str | None = None

    @property
    def name(self) -> str:
        """The name of the metric in the text of a card."""
        return {PERPLEXITY: "perplexity of masked tokens", F1: "F1"}.get(self.kind, self.kind)

    @property
    def text(self) -> str:
        """The value in the text of a card."""
        return f"{self.value:.2f} %" if self.is_share else f"{self.value:.2f}"

    @property
    def is_share(self) -> bool:
        """Whether the value is in percent."""
        return self.kind in _PERCENT


def updates_of(model: CheckpointModel) -> int:
    """The number of updates that a checkpoint records; 0 also if it was converted or imported."""
    return int(model.state["optimizer_history"][-1]["num_updates"])


def read_metrics(model: CheckpointModel, stage: Stage, evaluations: Sequence[Path]) -> list[Metric]:
    """All scores of a checkpoint: those of files first, then that of its training.

    Args:
        model: the model.
        stage: its last training.
        evaluations: files of `linformer evaluate --results`.

    Raises:
        UserError: a file is damaged, or is of another checkpoint.
    """
    records = [(path, read_evaluation(path)) for path in evaluations]
    digest = sha256(model.path) if records else ""
    for path, record in records:
        if record.sha256 != digest:
            raise UserError(
                f"{path}: is of another checkpoint (sha256 {record.sha256[:12]}..., but {model.path} has "
                f"{digest[:12]}...); evaluate {model.path} with --results"
            )
    found = [metric for _, record in records for metric in _evaluated(record)]
    if stage.conversion is not None:
        with stage.reading_conversion():
            return [*found, *_compared(stage.conversion)]
    update = updates_of(model)
    validated = list(_logged(stage, stage.run, update)) if stage.run else []
    return [*found, *(validated or _stored(model, stage.data))]


def _evaluated(record: EvaluationRecord) -> Iterator[Metric]:
    origin = (
        f"`{record.command}`, {record.examples:,} examples, {record.precision}; always the most frequent class: "
        f"{record.majority:.2f} %; {record.date}, commit {record.commit}; {record.machine}"
    )
    source = record.source
    places = source.get("repository"), source.get("config"), source.get("revision")
    for kind, value in record.scores.items():
        yield Metric(kind, value, record.task, record.split, origin, *places)


def _compared(conversion: Mapping[str, Any]) -> Iterator[Metric]:
    """The comparison of `linformer convert`."""
    comparison = conversion["comparison"] or {}
    for measured in comparison.get("perplexity", []):
        origin = (
            f"`linformer convert`, {measured['blocks']:,} blocks of {measured['length']:,} tokens, before any "
            f"training; the source: {measured['source']:.2f}; {conversion['date']}, commit and machine not recorded"
        )
        yield Metric(PERPLEXITY, measured["result"], comparison["text"], None, origin)


def _logged(stage: Stage, run: Run, update: int) -> Iterator[Metric]:
    """The validation after the checkpoint's last update."""
    row, log, data = run.row, run.log, stage.data
    attempt = next((one for one in run.record.attempts if update <= (one.updates_at_end or 0)), run.record.attempts[-1])
    hardware = ", ".join(dict.fromkeys([attempt.hardware.processor, attempt.hardware.accelerator or "none"]))
    most = stage.settings.get("dataset.max_valid_steps")
    part = f" on at most {most + 1:,} batches" if most is not None else ""  # fairseq stops after one more
    for kind, values, best in (
        (PERPLEXITY, log.perplexity, row.perplexity),
        (ACCURACY, log.accuracy, row.accuracy),
        (F1, log.f1, None),
    ):
        if update not in values:
            continue
        chosen = best is not None and best.update == update and len(values) > 1
        selected = f"; the best of {len(values):,} validations, on the data that it is chosen on" if chosen else ""
        origin = (
            f"fairseq's validation{part} in the training, after update {update:,}{selected}; run started "
            f"{row.started[:10]}, commit {row.commit}; {hardware.removesuffix(', none')}"
        )
        yield Metric(kind, values[update], data.name, log.split, origin, *_place(data))


def _stored(model: CheckpointModel, data: Data) -> Iterator[Metric]:
    """The score by which fairseq chooses the best checkpoint, which it writes into each."""
    value = model.state["extra_state"].get("val_loss")
    if value is None or model.state.get("args") is not None:
        return
    cfg = model.state["cfg"]
    kind = str(cfg.checkpoint.best_checkpoint_metric)
    if kind == LOSS and cfg.criterion._name == "masked_lm":  # in bits, as fairseq logs it
        kind, value = PERPLEXITY, 2 ** float(value)
    if kind in (PERPLEXITY, LOSS, *_PERCENT):
        split = str(cfg.dataset.valid_subset).split(",")[0]
        origin = "fairseq's validation, as the checkpoint records it; commit, machine and date not recorded"
        yield Metric(kind, float(value), data.name, split, origin, *_place(data))


def _place(data: Data) -> tuple[str | None, str | None, str | None]:
    if len(data.sources) != 1:
        return None, None, None
    source = data.sources[0]
    return source.repository, source.config, source.revision
