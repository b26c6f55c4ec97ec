"""A learning rate that is lowered on a plateau (``--lr-scheduler reduce_lr_on_plateau``) goes on after a resume.

What fairseq does: at the end of an epoch, the checkpoint is written before the scheduler sees the validation loss, and
a resumed run never shows it. The number of validations without improvement (``--lr-patience``) is not saved. So a
resumed run lowers the learning rate later, or not at all.

The patch: the number is saved, and a run that resumes at the end of an epoch shows the scheduler its validation loss.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from linformer_fairseq.training.resuming import resumed

KEY = "linformer_validation"
"""In a checkpoint's ``extra_state``: the loss of the validation after its update, if there was one before it was saved.
The loss that fairseq stores is missing from a checkpoint that `stopping` saves."""
_BAD = "num_bad_epochs"

_validated: dict[str, Any] = {}
"""The last validation: its update and its loss."""


def _noting(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(validate_and_save)
    def note(cfg: Any, trainer: Trainer, *rest: Any) -> Any:
        losses, should_stop = validate_and_save(cfg, trainer, *rest)
        if losses[0] is not None:
            _validated.update(updates=trainer.get_num_updates(), loss=losses[0])
        return losses, should_stop

    return note


def _with_loss(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def state(self: Trainer) -> dict[str, Any]:
        result = state_dict(self)
        if _validated.get("updates") == self.get_num_updates():
            result["extra_state"][KEY] = _validated["loss"]
        return result

    return state


def _showing_it(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(cfg: Any, trainer: Trainer, **more: Any) -> Any:
        extra_state, epoch_itr = load_checkpoint(cfg, trainer, **more)
        _validated.clear()  # that of another run of this process
        goes_on = resumed(extra_state, trainer) and not cfg.reset_lr_scheduler
        if goes_on and isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule):
            loss = extra_state.get(KEY, extra_state.get("val_loss"))
            if loss is not None and extra_state["train_iterator"]["iterations_in_epoch"] == 0:
                trainer.lr_step(epoch_itr.epoch, loss)
        return extra_state, epoch_itr

    return load


def _with_count(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def state(self: ReduceLROnPlateauLRSchedule) -> dict[str, Any]:
        return {**state_dict(self), _BAD: self.lr_scheduler.num_bad_epochs}

    return state


def _counting_on(load_state_dict: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(load_state_dict)
    def load(self: ReduceLROnPlateauLRSchedule, state_dict: dict[str, Any]) -> None:
        load_state_dict(self, state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict.get(_BAD, 0)

    return load


REPLACED = (
    ("fairseq_cli.train", "validate_and_save", _noting),
    (Trainer, "state_dict", _with_loss),
    (checkpoint_utils, "load_checkpoint", _showing_it),
    (ReduceLROnPlateauLRSchedule, "state_dict", _with_count),
    (ReduceLROnPlateauLRSchedule, "load_state_dict", _counting_on),
)
