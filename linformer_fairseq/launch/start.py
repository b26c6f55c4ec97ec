"""The checkpoint that a run begins with, if it is not its own last one: fairseq takes one at most."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from linformer_fairseq.checkpoints.dictionaries import check_same
from linformer_fairseq.checkpoints.folder import checkpoints
from linformer_fairseq.files.dictionary import find_dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.training.resuming import LAST, RESETS

_STARTS = ("restore_file", "continue_once", "finetune_from_model")
"""fairseq's options for such a checkpoint, each of which takes precedence over those behind it."""
_REMOTE = "://"
"""In paths that fairseq reads by iopath."""

logger = logging.getLogger(__name__)


def begin_with(config: DictConfig, pretrained: Path) -> None:
    """Set fairseq's option for the weights of ``pretrained``.

    Raises:
        UserError: it is set to another file.
    """
    given = config.checkpoint.finetune_from_model
    if given not in (None, str(pretrained)):
        raise UserError(f"checkpoint.finetune_from_model={given}, but pretrained={pretrained}: give one of them")
    config.checkpoint.finetune_from_model = str(pretrained)


def check_start(config: DictConfig, to_come: Path | None = None) -> None:
    """Raise unless the checkpoint that a run shall begin with is there, and fits its data; makes its path absolute.

    Args:
        config: of the run, after `begin_with`.
        to_come: a file that another run is to write first.

    Raises:
        UserError: two checkpoints are given, or the file is missing, or its dictionary is another one.
    """
    options = config.checkpoint
    starts = {name: options[name] for name in _STARTS if options[name] not in (None, LAST)}
    if len(starts) > 1:
        said = [f"checkpoint.{name}={given}" for name, given in starts.items()]
        if config.pretrained:
            said[-1] = f"pretrained={config.pretrained}"
        raise UserError(f"{said[0]}, but {said[-1]}: give one of them")
    for key, given in starts.items():
        if _REMOTE in given:
            continue
        path = Path(given).absolute()
        if path == to_come:
            continue
        if not path.is_file():
            raise UserError(f"checkpoint.{key}={given}: no such file; expected a checkpoint")
        options[key] = str(path)
        dict_txt = find_dictionary(Path(config.task.data.split(":")[0]))
        if dict_txt is not None and not config.pretrained:  # that of `pretrained` has been compared
            check_same(path, dict_txt)


def resume_own(config: DictConfig, requeued_since: float | None = None) -> None:
    """Let a run resume from its own checkpoint, if it has one, in place of what its command says: if it began with a
    checkpoint of another folder (``restore_file``), with which fairseq would begin again, or if its job was requeued.

    Args:
        config: of the run, after `check_start`.
        requeued_since: from `began_before_requeue`.
    """
    options = config.checkpoint
    folder = Path(options.save_dir).absolute()
    elsewhere = options.restore_file != LAST and not Path(options.restore_file).is_relative_to(folder)
    # without a last one (no_last_checkpoints, or damaged and moved away), recovery takes the newest
    own = checkpoints(folder, options.checkpoint_suffix)
    again = requeued_since is not None and any(path.stat().st_mtime >= requeued_since for path in own)
    anew = options.restore_file != LAST or any(options[name] for name in RESETS)
    if own and (elsewhere or (again and anew)):
        logger.info("%s: the run resumes from its own checkpoint, without restore_file and reset_...", folder)
        options.restore_file = LAST
        options.update(dict.fromkeys(RESETS, False))


def slurm_job(environment: Mapping[str, str]) -> str | None:
    """The job's number as users and the names of logs have it, such as 7 or, in an array, 7_3; None outside SLURM."""
    array = environment.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{environment['SLURM_ARRAY_TASK_ID']}" if array else environment.get("SLURM_JOB_ID")


def began_before_requeue(attempts: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> float | None:
    """When this job of SLURM began for the first time, in seconds since 1970; None if it was not requeued.

    SLURM repeats a job's command as it is. Where that begins anew (`RESETS`, or an earlier checkpoint of the run), each
    requeued job would lose what it has trained before.

    Args:
        attempts: of the run, as in run.json.
        environment: variables of this process.
    """
    if environment.get("SLURM_RESTART_COUNT", "0") == "0":
        return None
    job = slurm_job(environment)
    starts = [datetime.fromisoformat(one["start"]).timestamp() for one in attempts if one.get("slurm_job") == job]
    return min(starts, default=None)


def allow_resets(config: DictConfig) -> None:
    """Let a run that began with ``finetune_from_model`` begin anew in some way: fairseq refuses both options together,
    although it uses the file only if the run has no checkpoint of its own, and then resets all.

    Args:
        config: of the run, as fairseq gets it.
    """
    options = config.checkpoint
    if options.finetune_from_model is None or not any(options[name] for name in RESETS):
        return
    if checkpoints(Path(options.save_dir), options.checkpoint_suffix):
        options.finetune_from_model = None
    else:
        options.update(dict.fromkeys(RESETS, False))
