"""``linformer pretrain`` and ``linformer finetune``: one run, a sweep, or SLURM jobs.

Runs on this machine are started here, each in its own process (fairseq keeps the state of a run in its modules).
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

from fairseq.utils import reset_logging
from omegaconf import DictConfig

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.run_record import COMMANDS
from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import compose, jobs
from linformer_fairseq.launch.processes import INSTALLED_MODULES_ONLY, detect_rank, kill_tree, torchrun_command
from linformer_fairseq.launch.run_folder import CONSOLE_LOG, read_record
from linformer_fairseq.launch.submission import folder_option, submit
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
        submit(stage, overrides, sweep, folder)
        return 0
    if sweep:
        return _sweep(stage, runs, folder)
    rank_info = detect_rank(os.environ, config.distributed_training.distributed_world_size)
    reset_logging()
    if rank_info is None:
        if nothing_to_do(config, overrides):
            return 0
        words = [COMMANDS[stage], *folder_option(folder), *overrides]
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
        train(config, rank_info, [*folder_option(folder), *overrides])
    except EXPLAINED as error:
        raise UserError(str(error)) from None
    return 0


def _sweep(stage: str, runs: Sequence[Run], folder: Path | None) -> int:
    failed = []
    for number, run in enumerate(runs, 1):
        said = " ".join(run.overrides)
        print(f"==> run {number} of {len(runs)}: {said}", flush=True)
        words = [COMMANDS[stage], *folder_option(folder), *run.overrides]
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
    early: list[int] = []
    received: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        early.append(number)

    stays_ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()  # by nohup
    before = {number: signal.signal(number, keep) for number in _FORWARDED if number not in stays_ignored}
    try:
        # In its own session: a signal to the process group, such as that of Ctrl-C, would reach it twice.
        with subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True) as process:

            def forward(number: int, frame: FrameType | None) -> None:
                received.append(number)
                if len(received) == 1:
                    # torchrun forwards SIGTERM and SIGINT to its workers; SIGUSR1 would end only torchrun itself. When
                    # the terminal is closed (SIGHUP), the run is stopped with a checkpoint.
                    as_term = number == signal.SIGHUP or (torchrun and number != signal.SIGINT)
                    process.send_signal(signal.SIGTERM if as_term else number)
                elif number == signal.SIGINT:
                    kill_tree(process.pid)

            for number in before:
                signal.signal(number, forward)
            for came in early:  # while it was started
                forward(came, None)
            exit_code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return exit_code if exit_code >= 0 else 128 - exit_code, received[0] if received else 0


def _attempts(path: Path) -> list[Mapping[str, object]]:
    return list((read_record(path) or {}).get("attempts", []))
