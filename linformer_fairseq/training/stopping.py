"""A run that is asked to stop saves a checkpoint at the next update and ends with a status that says so.

What fairseq does: nothing; SIGTERM and SIGUSR1 end it at once, and what it learned since the last checkpoint is lost.

The mend: ``fairseq_cli.train.validate_and_save`` is called after every update. There the processes agree whether one of
them was asked to stop, at the same update for all.
"""

from __future__ import annotations

import functools
import logging
import signal
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from fairseq import checkpoint_utils

from linformer_fairseq.compat.patching import replace
from linformer_fairseq.training import signals
from linformer_fairseq.training.control_group import highest, leave
from linformer_fairseq.training.progress import Progress

logger = logging.getLogger(__name__)

# Not one that Python, a shell or SLURM uses themselves: batch scripts take it for "requeue me".
STOPPED_STATUS = 85


_progress = Progress()  # a process trains once


class Stopped(SystemExit):
    """The run ended because a signal asked for it; its status is the process's.

    Args:
        status: 85 with a checkpoint saved, 128 + the signal's number before the first update.
        updates: done in all.
        number: the signal's.
    """

    def __init__(self, status: int, updates: int, number: int) -> None:
        super().__init__(status)
        self.updates = updates
        self.signal = signal.Signals(number).name


def _save_and_stop(cfg: Any, trainer: Any, epoch_itr: Any, number: int) -> NoReturn:
    updates = trainer.get_num_updates()
    checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    first = trainer.is_data_parallel_master
    # The others wait here until the first process has saved, and end with 0: srun kills all at the first status that is
    # not, and reports the highest.
    leave()
    stopped = Stopped(STOPPED_STATUS if first else 0, updates, number)
    say = logger.warning if first else logger.debug
    say(
        "%s: stopped after update %d, status %d. %s",
        *(stopped.signal, updates, STOPPED_STATUS),
        "Nothing was saved (no_save, no_last_checkpoints)."
        if cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints
        else f"The checkpoint is in {cfg.checkpoint.save_dir}; the same command goes on from it.",
    )
    signals.hand_on(number)
    raise stopped


def _stopping(progress: Progress) -> Callable[..., Any]:
    def wrap(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(validate_and_save)
        def validate_save_and_look(cfg: Any, trainer: Any, task: Any, epoch_itr: Any, *rest: Any) -> Any:
            valid_losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *rest)
            progress.last = trainer.get_num_updates()
            # After the usual work, so that an update which ends the run, or has just been saved, is treated as ever.
            number = highest(signals.received())
            if number and not should_stop:
                _save_and_stop(cfg, trainer, epoch_itr, number)
            return valid_losses, should_stop

        return validate_save_and_look

    return wrap


def _listening(progress: Progress) -> Callable[..., Any]:
    def wrap(train: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(train)
        def listen_and_train(cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
            signals.listen()
            updates = trainer.get_num_updates()
            if progress.first is None:
                progress.first = updates
                progress.parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
            # fairseq looks at max_update after an update only: started again, a finished run would get one more
            if cfg.optimization.max_update and updates >= cfg.optimization.max_update:
                logger.info("nothing is left to do: %d of %d updates are done", updates, cfg.optimization.max_update)
                progress.last, progress.complete = updates, True
                return [None], True
            if number := highest(signals.received()):
                if trainer.is_data_parallel_master:
                    logger.warning("%s: stopped before update %d", signal.Signals(number).name, updates + 1)
                leave()
                signals.hand_on(number)
                raise Stopped(128 + number, updates, number)
            return train(cfg, trainer, task, epoch_itr)

        return listen_and_train

    return wrap


def attach(program: ModuleType) -> Progress:
    """Make ``fairseq_cli.train`` stop in order; it looks both functions up when it calls them.

    Returns:
        what is filled while it trains, the same object at every call.
    """
    replace(program, "validate_and_save", _stopping(_progress))
    replace(program, "train", _listening(_progress))
    return _progress


def install() -> None:
    """Make the training that has loaded this plugin (``fairseq-train --user-dir``) stop in order."""
    program = sys.modules.get("fairseq_cli.train")
    if program is not None:  # importing it would set up logging for whoever imports the package
        attach(program)
