"""``run_config=slurm``: submits runs to SLURM with Hydra's submitit launcher, and waits for them."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
import submitit
from fairseq.utils import reset_logging
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from submitit.core.utils import (
    FailedJobError,
    FailedSubmissionError,
    JobPaths,
    UncompletedJobError,
    cloudpickle_dump,
    temporary_save_path,
)

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.run_record import COMMANDS
from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import VERSION_BASE, add_choices, config_dir, overrides_for_hydra, register
from linformer_fairseq.launch.processes import detect_rank
from linformer_fairseq.launch.train import EXPLAINED, train
from linformer_fairseq.training.signals import Stopped

logger = logging.getLogger(__name__)

_RULE = "-" * 22  # around what a job says, in submitit's errors


def submit(stage: str, overrides: Sequence[str], sweep: bool, folder: Path | None) -> None:
    """Submit the requested runs, which have been checked, and wait until they have ended, or one has failed.

    Args:
        stage: ``pretraining`` or ``finetuning``.
        overrides: in Hydra's syntax.
        sweep: whether values may be comma-separated lists, and the config's own grid is used.
        folder: folder of the configs, if not the project's own.

    Raises:
        UserError: there is no SLURM, it does not take the jobs, or a run has failed.
    """
    _require_slurm()
    register()
    words = overrides_for_hydra(stage, overrides, folder, sweep)
    sys.argv = [f"linformer {COMMANDS[stage]}", "--multirun", *words, "hydra.sweeper.params=null"]
    # Hydra takes a relative folder as one beside this module.
    configs = str((folder or config_dir()).absolute())
    main = hydra.main(version_base=VERSION_BASE, config_path=configs, config_name=stage)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # without it, Hydra prints a traceback and ends this process
    try:
        main(_submitted)()
    except (HydraException, FailedSubmissionError, UncompletedJobError) as error:
        raise UserError(f"run_config=slurm: {_reason(error)}") from None


def folder_option(folder: Path | None) -> list[str]:
    """The words that name the folder of the configs, if it is not the project's own."""
    return [f"--config-dir={folder}"] if folder else []


def _require_slurm() -> None:
    """Raise if SLURM is not available: submitit would end with a traceback."""
    for program in ("sinfo", "srun"):
        if shutil.which(program) is None:
            raise UserError(
                f"run_config=slurm: {program}: no such program; this is for a machine that submits to SLURM"
            )
    try:
        subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=60, check=True)
    except subprocess.TimeoutExpired:
        raise UserError("run_config=slurm: SLURM does not answer (sinfo took more than 60 s)") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().split("\n")[0] or f"sinfo ended with status {error.returncode}"
        raise UserError(f"run_config=slurm: SLURM does not answer: {said}") from None
    try:
        subprocess.run(["sacct", "--noheader", "--jobs=1"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        logger.warning(
            "run_config=slurm: this SLURM keeps no accounts (sacct fails): if a job of several tasks fails, or one is "
            "stopped, killed or cancelled, this command goes on waiting for it; look at squeue, and end it with Ctrl-C"
        )


def _reason(error: Exception) -> str:
    """What went wrong, in one line, from an error of Hydra or submitit."""
    lines = str(error).strip().splitlines()
    if isinstance(error, FailedJobError):
        before, *inside = str(error).split(_RULE)
        # what a job says is its error as _store has it, or a traceback; what sbatch says are some lines
        lines = inside[0].strip().splitlines()[-1:] if inside else before.strip().splitlines()
    elif isinstance(error, UncompletedJobError):
        lines = [*lines[:2], "its output is in the folder run.slurm.logs"]
    return "; ".join(lines) or f"{type(error).__name__}, without a message"


def _paths() -> JobPaths | None:
    """submitit's files of this task; None with another of Hydra's launchers."""
    return submitit.JobEnvironment().paths if "SUBMITIT_EXECUTOR" in os.environ else None


def _store(error: str) -> None:
    """Tell the command that submitted the job that it has failed: without this file, submitit has to ask sacct."""
    if paths := _paths():
        with temporary_save_path(paths.result_pickle) as path:
            cloudpickle_dump(("error", f"{error} (see {paths.stdout})"), path)


def _submitted(config: DictConfig) -> None:
    """Entry point of each task of a job submitted by submitit."""
    register()
    hydra_config = HydraConfig.get()
    if paths := _paths():  # SLURM may have requeued the job after an error, such as of a node
        paths.result_pickle.unlink(missing_ok=True)
    try:
        add_choices(config, hydra_config.runtime.choices)
        completed = complete(config)
        rank_info = detect_rank(os.environ, completed.distributed_training.distributed_world_size)
        if rank_info is None:
            raise UserError("not a task of a SLURM job; run_config=slurm is for Hydra's submitit launcher")
        reset_logging()
        folder = next(Path(one.path) for one in hydra_config.runtime.config_sources if one.provider == "main")
        words = [*folder_option(None if folder == config_dir() else folder), *hydra_config.overrides.task]
        train(completed, rank_info, words)
    except Stopped as stopped:
        if stopped.__cause__:  # why submitit has not requeued the job
            _store(f"{stopped.__cause__} The same command resumes the run.")
        raise
    except Exception as error:
        # Hydra would store the error and end this task with status 0, and the others would wait for it.
        if isinstance(error, EXPLAINED):
            logger.error("%s", error)
        else:
            logger.exception("the run failed")
        said = str(error).strip().split("\n")[0]
        _store(said if isinstance(error, EXPLAINED) else f"{type(error).__name__}: {said}")
        raise SystemExit(1) from None
