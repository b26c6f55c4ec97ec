"""A run that is stopped by a signal saves a checkpoint after the update and exits with status 85.

What fairseq does: nothing; SIGTERM and SIGUSR1 end it at once, and the updates since the last checkpoint are lost. A
run that has reached ``max_update``, if started again, makes one more.

The patch: ``fairseq_cli.train.validate_and_save`` is called after every update. After it, the processes agree whether
one of them received a signal, so that all stop at the same update; the status is 1 if ``no_save`` or
``no_last_checkpoints`` forbids the checkpoint. The run's progress is stored in `training.run_report.PROGRESS`, and a
finished run makes no update.
"""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from fairseq import checkpoint_utils

from linformer_fairseq.training import signals
from linformer_fairseq.training.process_group import highest, leave
from linformer_fairseq.training.resuming import command_to_resume, saves_last
from linformer_fairseq.training.run_report import PROGRESS
from linformer_fairseq.training.signals import STOPPED_STATUS, Stopped

logger = logging.getLogger(__name__)


def _save_and_stop(cfg: Any, trainer: Any, epoch_itr: Any, number: int) -> NoReturn:
    updates = trainer.get_num_updates()
    checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    first = trainer.is_data_parallel_master
    # Not 85 if nothing is saved: a requeued job would begin again from an earlier point, each time.
    saved = saves_last(cfg.checkpoint)
    status = STOPPED_STATUS if saved else 1
    # The others wait here until the first process has saved, and exit with 0: srun kills all at the first nonzero
    # status, and reports the highest.
    leave()
    stopped = Stopped(status if first else 0, updates, number)
    say = logger.warning if first else logger.debug
    say(
        "%s: stopped after update %d, status %d. %s",
        *(stopped.signal, updates, status),
        f"The checkpoint is in {cfg.checkpoint.save_dir}; {command_to_resume(cfg.checkpoint)} resumes from it."
        if saved
        else "Nothing was saved (no_save, no_last_checkpoints).",
    )
    # If nothing is saved, submitit is not to requeue the job.
    raise stopped from (signals.hand_on(number) if saved else None)


def _stopping(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(validate_and_save)
    def validate_save_and_stop(cfg: Any, trainer: Any, task: Any, epoch_itr: Any, *rest: Any) -> Any:
        valid_losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *rest)
        PROGRESS.last = trainer.get_num_updates()
        # After fairseq's own work, so that an update that ends the run or was just saved is handled as usual.
        number = highest(signals.received())
        if number and not should_stop and not _was_last_epoch(cfg, epoch_itr):
            _save_and_stop(cfg, trainer, epoch_itr, number)
        return valid_losses, should_stop

    return validate_save_and_stop


def _was_last_epoch(cfg: Any, epoch_itr: Any) -> bool:
    """Whether fairseq begins no further epoch."""
    return bool(cfg.optimization.max_epoch) and epoch_itr.next_epoch_idx > cfg.optimization.max_epoch


def _noting_finished(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(cfg: Any, trainer: Any, **more: Any) -> Any:
        extra_state, epoch_itr = load_checkpoint(cfg, trainer, **more)
        updates = trainer.get_num_updates()
        if updates and _was_last_epoch(trainer.cfg, epoch_itr):
            logger.info("nothing is left to do: %d epochs are done", trainer.cfg.optimization.max_epoch)
            PROGRESS.last, PROGRESS.complete = updates, True
        return extra_state, epoch_itr

    return load


def _listening(train: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(train)
    def listen_and_train(cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
        signals.listen()
        updates = trainer.get_num_updates()
        if PROGRESS.first is None:
            PROGRESS.first = updates
            PROGRESS.parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
        # fairseq checks max_update only after an update: a finished run, if started again, would make one more
        if cfg.optimization.max_update and updates >= cfg.optimization.max_update:
            logger.info("nothing is left to do: %d of %d updates are done", updates, cfg.optimization.max_update)
            PROGRESS.last, PROGRESS.complete = updates, True
            return [None], True
        # Only before the first update: with a signal between two epochs, the run makes another update, and saves it.
        if updates == PROGRESS.first and (number := highest(signals.received())):
            if trainer.is_data_parallel_master:
                logger.warning("%s: stopped before update %d", signal.Signals(number).name, updates + 1)
            leave()
            raise Stopped(128 + number, updates, number) from signals.hand_on(number)
        return train(cfg, trainer, task, epoch_itr)

    return listen_and_train


REPLACED = (
    ("fairseq_cli.train", "validate_and_save", _stopping),
    ("fairseq_cli.train", "train", _listening),
    (checkpoint_utils, "load_checkpoint", _noting_finished),
)
