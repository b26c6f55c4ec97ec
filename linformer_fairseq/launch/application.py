"""``linformer pretrain`` and ``linformer finetune``: one run, a sweep, or SLURM jobs.

Runs on this machine are started here, each in its own process (fairseq keeps the state of a run in its modules).
Hydra's own main function is used only to submit to SLURM, with its submitit launcher.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import hydra
from fairseq.utils import reset_logging
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.run_record import COMMANDS
from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import (
    VERSION_BASE,
    add_choices,
    compose,
    config_dir,
    jobs,
    overrides_for_hydra,
    register,
)
from linformer_fairseq.launch.processes import INSTALLED_MODULES_ONLY, detect_rank, kill_tree, torchrun_command
from linformer_fairseq.launch.run_folder import CONSOLE_LOG, read_record
from linformer_fairseq.launch.train import EXPLAINED, check_run_folder, nothing_to_do, train
from linformer_fairseq.training.resuming import saves_last
from linformer_fairseq.training.signals import STOPPED_STATUS

logger = logging.getLogger(__name__)

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class Run(NamedTuple):
    """One of the requested runs."""

    overrides: list[str]
    config: DictConfig


def check(stage: str, overrides: Sequence[str], sweep: bool, folder: Path | None = None) -> list[Run]:
    """Every run that the overrides request, with its completed config. Nothing is started or submitted.

    Raises:
        UserError: one of them could not start; in a sweep, the message names it.
    """
    wanted = jobs(stage, overrides, folder) if sweep else [list(overrides)]
    runs = []
    for job in wanted:
        try:
            runs.append(Run(job, complete(compose(stage, job, folder))))
            check_run_folder(runs[-1].config, job)
        except UserError as error:
            raise UserError(f"{error} (in the run with {' '.join(job)})" if sweep else str(error)) from None
    require_own_folders([run.config for run in runs])
    return runs


def require_own_folders(configs: Sequence[DictConfig]) -> None:
    """Raise if runs that are started together share a folder.

    Raises:
        UserError: with the folder, and how to name the runs.
    """
    folders = [config.checkpoint.save_dir for config in configs]
    if twice := next((path for path in folders if folders.count(path) > 1), None):
        raise UserError(
            f"several runs would be in {twice}: its name lacks what differs between them; add it to run.name, as in "
            "'run.name=${run.model}_lr${optimization.lr.0}_s${common.seed}', and ${run.task} for several tasks"
        )


def launch(stage: str, overrides: Sequence[str], sweep: bool, folder: Path | None = None) -> int:
    """Start the requested runs and wait for their end.

    Args:
        stage: ``pretraining`` or ``finetuning``.
        overrides: in Hydra's syntax.
        sweep: whether values may be comma-separated lists, and the config's own grid is used.
        folder: folder of the configs, if not the project's own.

    Returns:
        exit status: 0 finished, 1 failed, or stopped by a signal without a checkpoint (no_save, no_last_checkpoints),
        85 stopped by a signal after a checkpoint, 130 Ctrl-C.

    Raises:
        UserError: a run could not start, or made no update.
    """
    runs = check(stage, overrides, sweep, folder)
    config = runs[0].config
    if config.run.slurm is not None:
        return _submit(stage, overrides, sweep, folder)
    if sweep:
        return _sweep(stage, runs, folder)
    rank_info = detect_rank(os.environ, config.distributed_training.distributed_world_size)
    reset_logging()
    if rank_info is None:
        if nothing_to_do(config, overrides):
            return 0
        words = [COMMANDS[stage], *_folder_option(folder), *overrides]
        command, environment = torchrun_command(config.distributed_training.distributed_world_size, words)
        path = Path(config.checkpoint.save_dir)
        before = _attempts(path)
        exit_code, forwarded_signal = _child(command, environment, torchrun=True)
        attempts = _attempts(path)
        if forwarded_signal == signal.SIGINT:
            raise KeyboardInterrupt
        last: Mapping[str, object] = attempts[-1] if len(attempts) > len(before) else {}
        if exit_code and last.get("status") == "stopped" and last.get("updates_at_end"):  # else it has saved nothing
            if not saves_last(config.checkpoint):
                return 1
            logger.warning("stopped by a signal; the same command resumes from %s", path)
            return STOPPED_STATUS
        return 128 + forwarded_signal if exit_code and forwarded_signal else exit_code
    try:
        train(config, rank_info, [*_folder_option(folder), *overrides])
    except EXPLAINED as error:
        raise UserError(str(error)) from None
    return 0


def _sweep(stage: str, runs: Sequence[Run], folder: Path | None) -> int:
    failed = []
    for number, run in enumerate(runs, 1):
        said = " ".join(run.overrides)
        print(f"==> run {number} of {len(runs)}: {said}", flush=True)
        words = [COMMANDS[stage], *_folder_option(folder), *run.overrides]
        exit_code, forwarded_signal = _child(
            [sys.executable, "-m", "linformer_fairseq.cli", *words], INSTALLED_MODULES_ONLY
        )
        if forwarded_signal:  # however the run ended, no other one is started
            return exit_code or 128 + forwarded_signal
        if exit_code:
            log = Path(run.config.checkpoint.save_dir) / CONSOLE_LOG
            failed.append(f"{said} (status {exit_code}{f'; see {log}' if log.exists() else ''})")
    for text in failed:
        print(f"failed: {text}", file=sys.stderr)
    return 1 if failed else 0


def _child(command: Sequence[str], environment: Mapping[str, str], torchrun: bool = False) -> tuple[int, int]:
    """Run a command, and forward the first signal that asks it to stop; a later SIGINT (Ctrl-C) kills it.

    Returns:
        its exit code, as in a shell, and the number of the signal that was forwarded, 0 if none was.
    """
    received: list[int] = []
    # In its own session: a signal to the process group, such as that of Ctrl-C, would reach it twice.
    with subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True) as process:

        def forward(number: int, frame: FrameType | None) -> None:
            received.append(number)
            if len(received) == 1:
                # torchrun forwards SIGTERM and SIGINT to its workers; SIGUSR1 would end only torchrun itself. When the
                # terminal is closed (SIGHUP), the run is stopped with a checkpoint.
                as_term = number == signal.SIGHUP or (torchrun and number != signal.SIGINT)
                process.send_signal(signal.SIGTERM if as_term else number)
            elif number == signal.SIGINT:
                kill_tree(process.pid)

        stays_ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()  # by nohup
        before = {number: signal.signal(number, forward) for number in _FORWARDED if number not in stays_ignored}
        try:
            exit_code = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return exit_code if exit_code >= 0 else 128 - exit_code, received[0] if received else 0


def _attempts(path: Path) -> list[Mapping[str, object]]:
    return list((read_record(path) or {}).get("attempts", []))


def _folder_option(folder: Path | None) -> list[str]:
    return [f"--config-dir={folder}"] if folder else []


def _require_slurm() -> None:
    """Raise if SLURM is not available: submitit would end with a traceback."""
    try:
        subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=60, check=True)
    except FileNotFoundError:
        raise UserError(
            "run_config=slurm: sinfo: no such program; this is for a machine that submits to SLURM"
        ) from None
    except subprocess.TimeoutExpired:
        raise UserError("run_config=slurm: SLURM does not answer (sinfo took more than 60 s)") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().split("\n")[0] or f"sinfo ended with status {error.returncode}"
        raise UserError(f"run_config=slurm: SLURM does not answer: {said}") from None


def _submit(stage: str, overrides: Sequence[str], sweep: bool, folder: Path | None) -> int:
    _require_slurm()
    register()
    words = overrides_for_hydra(stage, overrides, folder, sweep)
    sys.argv = [f"linformer {COMMANDS[stage]}", "--multirun", *words, "hydra.sweeper.params=null"]
    # Hydra takes a relative folder as one beside this module.
    configs = str((folder or config_dir()).absolute())
    main = hydra.main(version_base=VERSION_BASE, config_path=configs, config_name=stage)
    main(_submitted)()
    return 0


def _submitted(config: DictConfig) -> None:
    """Entry point of each task of a job submitted by submitit."""
    register()
    hydra_config = HydraConfig.get()
    try:
        add_choices(config, hydra_config.runtime.choices)
        completed = complete(config)
        rank_info = detect_rank(os.environ, completed.distributed_training.distributed_world_size)
        if rank_info is None:
            raise UserError("not a task of a SLURM job; run_config=slurm is for Hydra's submitit launcher")
        reset_logging()
        folder = next(Path(one.path) for one in hydra_config.runtime.config_sources if one.provider == "main")
        words = [*_folder_option(None if folder == config_dir() else folder), *hydra_config.overrides.task]
        train(completed, rank_info, words)
    except Exception as error:
        # Hydra would store the error and end this task with status 0, and the others would wait for it.
        if isinstance(error, EXPLAINED):
            logger.error("%s", error)
        else:
            logger.exception("the run failed")
        raise SystemExit(1) from None
