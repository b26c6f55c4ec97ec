"""What a run leaves on record beside its checkpoints, and that it runs once at a time.

``config.yaml`` is the config, ``console.log`` what the terminal showed, ``run.json`` one object: what the run is
(schema, stage, name, experiment, seed, task, data, lr, pretrained, paper, overrides, model, parameters, max_update,
warmup_updates, tokens_per_update, commit, versions), and ``attempts``, an entry for each time that it was started:
start, end, status (running, finished, stopped, failed), updates_at_start, updates_at_end, world_size, hardware,
slurm_job, error.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq import run_json
from linformer_fairseq.launch.errors import LaunchError
from linformer_fairseq.training.progress import Progress

logger = logging.getLogger(__name__)

CONSOLE_LOG = "console.log"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class RunFolder:
    """The folder of one run, held by its first process.

    Args:
        path: checkpoint.save_dir; made if it is not there.

    Raises:
        LaunchError: another process trains in it, or its run.json cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"checkpoint.save_dir: {path}: {error.strerror}") from None
        self._lock = _lock(path / ".lock")
        self._record = read_record(path) or {}

    def begin(self, config: DictConfig, facts: Mapping[str, Any], attempt: Mapping[str, Any]) -> None:
        """Write config.yaml and run.json, with a new attempt that is running."""
        attempts = self._record.get("attempts", [])
        for earlier in attempts:
            if earlier["status"] == "running":  # nobody holds the lock: it was killed
                earlier.update(status="failed", error="killed: it could not say more")
        _write(self.path / "config.yaml", OmegaConf.to_yaml(config, resolve=True))
        started = {"start": now(), "end": None, "status": "running", "error": None, **attempt}
        self._record = {"schema": run_json.SCHEMA, **facts, "attempts": [*attempts, started]}
        self._save()

    def end(self, status: str, progress: Progress, error: str | None = None) -> None:
        """Close the attempt."""
        self._record["parameters"] = progress.parameters
        last = self._record["attempts"][-1]
        last.update(end=now(), status=status, error=error)
        if progress.first is not None:
            last["updates_at_start"] = progress.first
        if progress.last is not None:
            last["updates_at_end"] = progress.last
        try:
            self._save()
        except OSError as problem:  # what ended the run says more than that its end could not be noted
            logger.error("%s: %s", self.path / run_json.NAME, problem)

    def _save(self) -> None:
        _write(self.path / run_json.NAME, json.dumps(self._record, indent=1, ensure_ascii=False) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """What a run folder's run.json says; None without one.

    Raises:
        LaunchError: it is damaged, or of another version.
    """
    try:
        return run_json.read(path)
    except FileNotFoundError:
        return None
    except run_json.RunJsonError as error:
        raise LaunchError(f"{error}; move it away to go on without it") from None


def updates_done(record: Mapping[str, Any]) -> int:
    """Updates after the last attempt that could say so."""
    return max((attempt.get("updates_at_end") or 0 for attempt in record.get("attempts", [])), default=0)


def has_finished(record: Mapping[str, Any], max_update: int) -> bool:
    """Whether the run's last attempt ended as it should, and nothing is left to do."""
    attempts: Sequence[Mapping[str, Any]] = record.get("attempts", [])
    return bool(attempts) and attempts[-1]["status"] == "finished" and record.get("max_update", 0) >= max_update


def _lock(path: Path) -> IO[str]:
    try:
        stream = path.open("a+")
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}; the run folder must be one that can be written to") from None
    # Data workers that outlive a killed run for some seconds must not hold its lock.
    os.register_at_fork(after_in_child=stream.close)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            stream.seek(0)
            raise LaunchError(
                f"{path.parent}: another run trains in this folder ({stream.read().strip() or 'no name given'}); wait "
                "for it, or say another checkpoint.save_dir"
            ) from None
        # some network file systems have no locks: better without than not at all
        logger.warning("%s: no lock (%s): nothing hinders a second run in this folder", path, error.strerror)
        return stream
    stream.truncate(0)
    stream.write(f"process {os.getpid()} on {os.uname().nodename}")
    stream.flush()
    return stream


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
