"""One process of a run: joins the others, trains with fairseq, and records the run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train as fairseq_train
from omegaconf import DictConfig, OmegaConf, open_dict

from linformer_fairseq import patches
from linformer_fairseq.checkpoints.dictionaries import digests
from linformer_fairseq.checkpoints.folder import checkpoints
from linformer_fairseq.files import provenance
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.soft_labels import soft_labels_of
from linformer_fairseq.files.task_inputs import read_inputs
from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.launch.pretrained import all_options, read_pretrained
from linformer_fairseq.launch.processes import SRUN, RankInfo
from linformer_fairseq.launch.run_folder import (
    CONSOLE_LOG,
    RunFolder,
    has_finished,
    read_record,
    require_checkpoints,
    stops,
    updates_done,
)
from linformer_fairseq.launch.run_identity import check_same_model, check_same_run, check_same_start, data_bytes
from linformer_fairseq.launch.start import allow_resets, began_before_requeue, resume_own, slurm_job
from linformer_fairseq.tasks import SOFT_SENTENCE_PREDICTION
from linformer_fairseq.training import signals
from linformer_fairseq.training.joining import join
from linformer_fairseq.training.process_group import leave
from linformer_fairseq.training.run_report import PROGRESS
from linformer_fairseq.training.signals import Stopped

logger = logging.getLogger(__name__)

# Not in fairseq's config: without them, fairseq alone can read the config in a checkpoint.
_OURS = ("run", "pretrained", "lr")

EXPLAINED = (UserError, MemoryError, torch.OutOfMemoryError)
"""Errors whose message says what happened and what to do, so that no traceback is needed."""


def train(config: DictConfig, rank_info: RankInfo, overrides: Sequence[str]) -> None:
    """Train to the end of the run, or until a signal asks to stop.

    Args:
        config: completed.
        rank_info: rank of this process.
        overrides: as the user typed them, with --config-dir, for the record.

    Raises:
        UserError: nothing could be trained.
        Stopped: the run was stopped by a signal.
    """
    signals.listen()
    check_device(config)
    config = with_defaults(config)
    OmegaConf.set_struct(config, True)
    path = Path(config.checkpoint.save_dir)
    facts = _facts(config, overrides)
    folder = RunFolder(path) if rank_info.rank == 0 else None
    record = read_record(path) or {}
    if attempts := record.get("attempts"):
        resume_own(config, began_before_requeue(attempts, os.environ))
    if _is_finished(record, config, facts, first=folder is not None):
        return
    hosts = _meet(config, rank_info)
    patches.install()  # those of fairseq_cli.train, which has been imported by now
    if folder is None:
        _run(config)
        return
    attempt = {
        "updates_at_start": updates_done(record),
        "updates_at_end": None,
        "world_size": rank_info.world_size,
        "hardware": {"processor": f"{provenance.machine()} memory", "accelerator": accelerator(), "hosts": hosts},
        "slurm_job": slurm_job(os.environ),
    }
    if record and checkpoints(path, config.checkpoint.checkpoint_suffix):
        # it goes on from its own checkpoint, whatever has become of the pretrained one
        facts["pretrained_weights"] = record.get("pretrained_weights")
    folder.begin(config, facts, attempt)
    with _console_log(path), _recorded(folder):
        _run(config)


def nothing_to_do(config: DictConfig, overrides: Sequence[str]) -> bool:
    """Whether a run of several processes has finished: found out before they start, as are most of their errors.

    Args:
        config: completed.
        overrides: as the user typed them.

    Raises:
        UserError: they could not train, or not in this folder.
    """
    check_device(config)
    config = with_defaults(config)
    path = Path(config.checkpoint.save_dir)
    RunFolder(path).release()  # for its errors
    return _is_finished(read_record(path) or {}, config, _facts(config, overrides), first=True)


def check_run_folder(config: DictConfig, overrides: Sequence[str]) -> bool:
    """Raise if the folder of a run has another one, or, without run.json, a checkpoint of another model.

    Nothing is written.

    Args:
        config: completed.
        overrides: as the user typed them.

    Returns:
        whether the run has finished.

    Raises:
        UserError: it has, or its record cannot be read.
    """
    path, config = Path(config.checkpoint.save_dir), with_defaults(config)
    if record := read_record(path):
        return _same_run_has_finished(path, record, _facts(config, overrides))
    check_same_model(path, config)
    return False


def _is_finished(record: Mapping[str, Any], config: DictConfig, facts: Mapping[str, Any], first: bool) -> bool:
    path = Path(config.checkpoint.save_dir)
    if not _same_run_has_finished(path, record, facts):
        return False
    if first:
        require_checkpoints(path, config.checkpoint)
    logger.info("%s: already finished, after %d updates", path, updates_done(record))
    return True


def _same_run_has_finished(path: Path, record: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Raise if the folder has another run, or a finished one from other weights; returns whether it has finished."""
    check_same_run(path, record, facts)
    if finished := has_finished(record, facts):
        check_same_start(path, record, facts)
    return finished


def check_device(config: DictConfig) -> None:
    """Raise UserError if the run is for GPUs, and this machine has none."""
    if not config.common.cpu and not torch.cuda.is_available():
        raise UserError("this run is for GPUs, but torch sees none; use run_config=cpu, or see `linformer doctor`")


def accelerator() -> str:
    """The GPUs of this machine."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"{gpus} x {torch.cuda.get_device_name(0)}" if gpus else "none"


def _meet(config: DictConfig, rank_info: RankInfo) -> list[str]:
    distributed, devices = config.distributed_training, torch.cuda.device_count()
    with open_dict(config):
        distributed.distributed_rank = rank_info.rank
        distributed.distributed_no_spawn = True
        distributed.distributed_init_method = rank_info.init_method
        # if SLURM shows each task only its own GPU, that is number 0
        distributed.device_id = rank_info.local_rank % (devices or 1)
    only_its_own = devices == 1 and rank_info.started_by == SRUN
    if not config.common.cpu and rank_info.local_rank >= devices and not only_its_own:
        raise UserError(
            f"process {rank_info.local_rank} of this machine finds {devices} GPU{'s' * (devices != 1)}; start one "
            f"process per GPU, with distributed_training.distributed_world_size={devices} on one machine"
        )
    if rank_info.init_method is None:
        return [os.uname().nodename]
    if not config.common.cpu:
        torch.cuda.set_device(distributed.device_id)
    return join(
        distributed.distributed_backend,
        rank_info.init_method,
        rank_info.rank,
        rank_info.world_size,
        config.run.join_timeout,
    )


def _run(config: DictConfig) -> None:
    fairseq_config = OmegaConf.masked_copy(config, [str(key) for key in config if key not in _OURS])
    OmegaConf.set_struct(fairseq_config, True)
    allow_resets(fairseq_config)
    distributed_utils.call_main(fairseq_config, fairseq_train.main)
    leave()
    if PROGRESS.complete and not checkpoints(Path(config.checkpoint.save_dir), config.checkpoint.checkpoint_suffix):
        start = config.checkpoint.continue_once or config.checkpoint.restore_file
        raise UserError(
            f"no update happened: {start} has {PROGRESS.last:,} updates, and this run ends "
            f"after {config.optimization.max_update:,}; raise optimization.max_update, or set "
            "checkpoint.reset_optimizer=true to count them anew"
        )
    if not PROGRESS.trained:
        raise UserError(
            f"no update happened: fairseq found nothing to do with {config.task.data}, max_epoch "
            f"{config.optimization.max_epoch} and stop_min_lr {config.optimization.stop_min_lr:g}; see the log"
        )


@contextmanager
def _recorded(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except Stopped as stopped:
        folder.end("stopped", PROGRESS, f"{stopped.signal} after update {stopped.updates}")
        raise
    except KeyboardInterrupt:
        folder.end("stopped", PROGRESS, "Ctrl-C")
        raise
    except BaseException as error:
        folder.end("failed", PROGRESS, f"{type(error).__name__}: {error}".split("\n")[0])
        raise
    folder.end("finished", PROGRESS)


@contextmanager
def _console_log(path: Path) -> Iterator[None]:
    """Write the log to the run folder, too."""
    root = logging.getLogger()
    handler = logging.FileHandler(path / CONSOLE_LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    root.addHandler(handler)
    try:
        yield
    except EXPLAINED as error:
        logger.error("the run failed: %s", error)
        raise
    except Exception:
        logger.exception("the run failed")
        raise
    finally:
        root.removeHandler(handler)
        handler.close()


def _model(options: Any) -> dict[str, Any]:
    """The model's options with the sizes of its architecture filled in."""
    return {**options, **all_options(options["_name"], options)}


def _tokens_per_update(config: DictConfig) -> int | None:
    """Of a pretraining, with padding: by fairseq's options, which may have been set beside run.tokens_per_update.

    None of another stage, of single lines in batches of a number of lines, or if fairseq, which then refuses to begin,
    has been given no size of a batch.
    """
    data, length = config.dataset, config.task.get("tokens_per_sample")
    full = config.task.get("sample_break_mode") != "eos"  # else a batch has lines of any length
    sizes = (data.max_tokens, full and data.batch_size and length and data.batch_size * length)
    batch = min(filter(None, sizes), default=None)
    if config.run.tokens_per_update is None or batch is None:
        return None
    return int(batch * config.optimization.update_freq[0] * config.distributed_training.distributed_world_size)


def _facts(config: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    run = config.run
    start = Path(config.pretrained) if config.pretrained else None  # of a chain, it is written only later
    soft = config.criterion._name == SOFT_SENTENCE_PREDICTION
    return {
        "stage": run.stage,
        "name": run.name,
        "experiment": run.experiment,
        "seed": config.common.seed,
        "task": run.task,
        "data": config.task.data,
        "data_bytes": data_bytes(config.task.data),
        "dictionaries": digests(Path(str(config.task.data).split(":")[0])),
        "inputs": asdict(read_inputs(Path(config.task.data))) if run.stage == "finetuning" else None,
        "lr": config.optimization.lr[0],
        "label_weight": config.criterion.label_weight if soft else None,
        "soft_labels": provenance.sha256(soft_labels_of(Path(config.task.data), "train"))[:16] if soft else None,
        "pretrained": config.pretrained,
        "pretrained_weights": read_pretrained(start).weights if start and start.is_file() else None,
        "finetune_from_model": config.checkpoint.finetune_from_model,
        "paper": OmegaConf.to_container(run.paper),
        "overrides": list(overrides),
        "model": _model(OmegaConf.to_container(config.model, enum_to_str=True)),
        "max_update": config.optimization.max_update,
        "stops": stops(config),
        "warmup_updates": config.lr_scheduler.get("warmup_updates"),
        "tokens_per_update": _tokens_per_update(config),
        "commit": provenance.commit(Path(__file__).resolve().parents[2]),
        "versions": provenance.versions(),
    }
