"""The folder of a run: its record, and a lock against a second process.

``config.yaml`` is the config, ``console.log`` a copy of the log, ``run.json`` one object: properties of the run
(schema, stage, name, experiment, seed, task, data, data_bytes, dictionaries, inputs, lr, label_weight, soft_labels,
pretrained, pretrained_weights, finetune_from_model, paper, overrides, model, max_update, stops, warmup_updates,
tokens_per_update, commit, versions, parameters), and ``attempts``, an entry for each start: start, end, status
(running, finished, stopped, failed), updates_at_start, updates_at_end, world_size, hardware, slurm_job, error, changed
(options with another value than at the start before).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.checkpoints.folder import checkpoints, examine, last_checkpoint
from linformer_fairseq.files import run_record
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.locks import Lock
from linformer_fairseq.launch.changes import changed_options
from linformer_fairseq.training.run_report import Progress

logger = logging.getLogger(__name__)

CONFIG = "config.yaml"
CONSOLE_LOG = "console.log"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class RunFolder:
    """The folder of one run, locked by its first process.

    Args:
        path: checkpoint.save_dir; created if it does not exist.

    Raises:
        UserError: another process trains in it, it is not writable, or its run.json cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(path / run_record.LOCK, sign=True)
        except UserError as error:
            raise UserError(f"checkpoint.save_dir: {error}") from None
        except OSError as error:
            raise UserError(f"checkpoint.save_dir: {path}: {error.strerror}; it must be a writable folder") from None
        self._record = read_record(path) or {}

    def release(self) -> None:
        """Let other processes train in it."""
        self._lock.release()

    def begin(self, config: DictConfig, facts: Mapping[str, Any], attempt: Mapping[str, Any]) -> None:
        """Write config.yaml and run.json, with a new attempt."""
        attempts = self._record.get("attempts", [])
        for earlier in attempts:
            if earlier["status"] == "running":  # the lock was free: it was killed
                earlier.update(status="failed", error="killed before it could record its end")
        text = OmegaConf.to_yaml(config, resolve=True)
        suffix = OmegaConf.select(config, "checkpoint.checkpoint_suffix") or ""
        # without a checkpoint, nothing of the earlier starts is left
        changed = changed_options(self.path / CONFIG, text) if checkpoints(self.path, suffix) else []
        if changed:
            logger.warning("%s: goes on with other options than before: %s", self.path, "; ".join(changed))
        write_file(self.path / CONFIG, text)
        started = {"start": now(), "end": None, "status": "running", "error": None, **attempt, "changed": changed}
        counted = {"parameters": self._record.get("parameters")}  # at an earlier start, of the same model
        self._record = {"schema": run_record.SCHEMA, **facts, **counted, "attempts": [*attempts, started]}
        self._save()

    def end(self, status: str, progress: Progress, error: str | None = None) -> None:
        """End the attempt."""
        if progress.parameters is not None:
            self._record["parameters"] = progress.parameters
        last = self._record["attempts"][-1]
        last.update(end=now(), status=status, error=error)
        if progress.first is not None:
            last["updates_at_start"] = progress.first
        if progress.last is not None:
            last["updates_at_end"] = progress.last
        try:
            self._save()
        except OSError as problem:  # the error that ended the run is more important
            logger.error("%s: %s", self.path / run_record.NAME, problem)

    def _save(self) -> None:
        write_file(self.path / run_record.NAME, json.dumps(self._record, indent=1, ensure_ascii=False) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """The content of a folder's run.json; None without one.

    Raises:
        UserError: it is damaged, or has another schema.
    """
    if not (path / run_record.NAME).exists():
        return None
    try:
        value = run_record.read(path)
        run_record.typed(path, value)  # for its errors: fields that others do not read are kept
    except UserError as error:
        raise UserError(f"{error}; move it away to continue without it") from None
    return value


def updates_done(record: Mapping[str, Any]) -> int:
    """Highest number of updates recorded by an attempt."""
    return max((attempt.get("updates_at_end") or 0 for attempt in record.get("attempts", [])), default=0)


def stops(config: DictConfig) -> dict[str, Any]:
    """The options that end a run before max_update."""
    optimization, checkpoint = config.optimization, config.checkpoint
    found = {name: optimization[name] for name in ("max_epoch", "stop_time_hours", "stop_min_lr")}
    return found | {"patience": checkpoint.patience}


def has_finished(record: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a run has nothing left to do: its last attempt ended by itself, and either made all of the updates that
    are wanted now, or ended early for a reason that still holds.

    Args:
        record: content of the folder's run.json; empty without one.
        facts: properties of the run that starts, as in run.json.
    """
    attempts: Sequence[Mapping[str, Any]] = record.get("attempts", [])
    if not attempts or attempts[-1]["status"] != "finished":
        return False
    wanted = facts["max_update"] or math.inf  # 0: no limit
    if wanted <= updates_done(record):
        return True
    # Records of earlier versions have no `stops`.
    same_stops = record.get("stops", facts["stops"]) == facts["stops"]
    return (record.get("max_update") or math.inf) >= wanted and same_stops


def require_checkpoints(path: Path, options: DictConfig) -> None:
    """Raise unless the folder of a finished run has what it was trained for: a last or best checkpoint, undamaged.

    It is not trained again unasked: whoever removes checkpoints after their use has the results, and a sweep or a
    restarted job would compute for days.

    Args:
        path: the folder.
        options: ``checkpoint`` of the run's config.

    Raises:
        UserError: there is no checkpoint, or one is damaged; the message says what to do.
    """
    if options.no_save:
        return
    again = "to train again, move this folder away or choose another run.name"
    suffix = options.checkpoint_suffix
    if not checkpoints(path, suffix):
        raise UserError(f"{path}: the run is finished, but its checkpoints are missing; put them back, or, {again}")
    for file in (last_checkpoint(path, suffix), path / f"checkpoint_best{suffix}.pt"):
        if file.is_file() and not (examined := examine(file)).usable:
            raise UserError(
                f"{file}: the run is finished, but this checkpoint is {examined.state.value} ({examined.reason}); put "
                f"a copy back, or set it aside with `linformer checkpoint verify --set-aside {path}`; {again}"
            )
