"""One process of a run: joins the others, trains with fairseq, and leaves a record."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.initialize import add_defaults
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train as fairseq_train
from omegaconf import DictConfig, OmegaConf, open_dict

from linformer_fairseq import provenance
from linformer_fairseq.launch.errors import EXPLAINED, LaunchError
from linformer_fairseq.launch.pretrained import all_options
from linformer_fairseq.launch.processes import Place
from linformer_fairseq.launch.run_folder import CONSOLE_LOG, RunFolder, has_finished, read_record, updates_done
from linformer_fairseq.launch.run_identity import check_same_run
from linformer_fairseq.training import not_learning, signals
from linformer_fairseq.training.control_group import leave
from linformer_fairseq.training.joining import join
from linformer_fairseq.training.progress import Progress
from linformer_fairseq.training.stopping import Stopped, attach

logger = logging.getLogger(__name__)

# What fairseq has no part for; a checkpoint's config is then one that fairseq alone can read.
_OURS = ("run", "pretrained", "lr")


def train(config: DictConfig, place: Place, overrides: Sequence[str]) -> None:
    """Train to the end of the run, or until a signal asks to stop.

    Args:
        config: completed.
        place: this process among those of the run.
        overrides: as the user typed them, for the record.

    Raises:
        LaunchError: nothing could be trained.
        Stopped: a signal came; a checkpoint is saved.
    """
    signals.listen()
    if not config.common.cpu and not torch.cuda.is_available():
        raise LaunchError("this run is for GPUs, but torch sees none; say run_config=cpu, or see `linformer doctor`")
    add_defaults(config)
    OmegaConf.set_struct(config, True)
    path = Path(config.checkpoint.save_dir)
    facts = _facts(config, overrides)
    folder = RunFolder(path) if place.rank == 0 else None
    record = read_record(path) or {}
    check_same_run(path, record, facts)
    if has_finished(record, config.optimization.max_update):
        logger.info("%s: already finished, after %d updates", path, updates_done(record))
        return
    hosts = _meet(config, place)
    not_learning.attach(fairseq_train)
    progress = attach(fairseq_train)
    if folder is None:
        _run(config, progress)
        return
    attempt = {
        "updates_at_start": updates_done(record),
        "updates_at_end": None,
        "world_size": place.world_size,
        "hardware": {**provenance.hardware(), "hosts": hosts},
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }
    folder.begin(config, facts, attempt)
    with _console_log(path), _recorded(folder, progress):
        _run(config, progress)


def _meet(config: DictConfig, place: Place) -> list[str]:
    distributed = config.distributed_training
    with open_dict(config):
        distributed.distributed_rank = place.rank
        distributed.distributed_no_spawn = True
        distributed.distributed_init_method = place.init_method
        # with a GPU for each task alone, every task sees its own as number 0
        distributed.device_id = place.local_rank % (torch.cuda.device_count() or 1)
    if not config.common.cpu and place.local_rank >= (devices := torch.cuda.device_count()) > 1:
        raise LaunchError(
            f"process {place.local_rank} of this machine finds {devices} GPUs; start as many processes as there are, "
            f"with distributed_training.distributed_world_size={devices} on one machine"
        )
    if place.init_method is None:
        return [os.uname().nodename]
    if not config.common.cpu:
        torch.cuda.set_device(distributed.device_id)
    return join(
        distributed.distributed_backend, place.init_method, place.rank, place.world_size, config.run.join_timeout
    )


def _run(config: DictConfig, progress: Progress) -> None:
    fairseq_config = OmegaConf.masked_copy(config, [str(key) for key in config if key not in _OURS])
    OmegaConf.set_struct(fairseq_config, True)
    distributed_utils.call_main(fairseq_config, fairseq_train.main)
    leave()
    if not progress.trained:
        raise LaunchError(
            f"no update happened: fairseq found nothing to do with {config.task.data}, max_epoch "
            f"{config.optimization.max_epoch} and stop_min_lr {config.optimization.stop_min_lr:g}; the log says more"
        )


@contextmanager
def _recorded(folder: RunFolder, progress: Progress) -> Iterator[None]:
    try:
        yield
    except Stopped as stopped:
        folder.end("stopped", progress, f"{stopped.signal} after update {stopped.updates}")
        raise
    except KeyboardInterrupt:
        folder.end("stopped", progress, "Ctrl-C")
        raise
    except BaseException as error:
        folder.end("failed", progress, f"{type(error).__name__}: {error}".split("\n")[0])
        raise
    folder.end("finished", progress)


@contextmanager
def _console_log(path: Path) -> Iterator[None]:
    """What the terminal shows is kept in the run folder, too."""
    root = logging.getLogger()
    handler = logging.FileHandler(path / CONSOLE_LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    root.addHandler(handler)
    try:
        yield
    except (LaunchError, *EXPLAINED) as error:
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


def _facts(config: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    run = config.run
    return {
        "stage": run.stage,
        "name": run.name,
        "experiment": run.experiment,
        "seed": config.common.seed,
        "task": run.task,
        "data": config.task.data,
        "lr": config.optimization.lr[0],
        "pretrained": config.pretrained,
        "paper": OmegaConf.to_container(run.paper),
        "overrides": list(overrides),
        "model": _model(OmegaConf.to_container(config.model, enum_to_str=True)),
        "parameters": None,
        "max_update": config.optimization.max_update,
        "warmup_updates": config.lr_scheduler.warmup_updates,
        "tokens_per_update": run.tokens_per_update,
        "commit": provenance.commit(Path(__file__).resolve().parents[2]),
        "versions": provenance.versions(),
    }
