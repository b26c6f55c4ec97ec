"""Early stopping (``--patience``) continues counting when a run is resumed.

What fairseq does: it counts the validations without improvement in memory. A run that is stopped more often than every
``patience`` validations never ends.

It also counts on when the same process begins another run.

The patch: the count and the best score are stored in the checkpoint, and restored when a run resumes, as fairseq does
with the best score of ``checkpoint_best.pt``; not when another run begins, even one with its weights
(``--finetune-from-model``).
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from linformer_fairseq.training.resuming import resumed

KEY = "linformer_patience"
"""Name of the record in a checkpoint's ``extra_state``."""

_NAMES = ("best", "num_runs")
_counted: dict[str, Any] = {}
"""Attributes of fairseq's function: the best score, and the number of validations since then."""


def _counting(should_stop_early: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(should_stop_early)
    def count(cfg: Any, valid_loss: float | None) -> bool:
        # fairseq's function keeps them on what its module calls by its name: on this one
        for name in _NAMES:
            vars(count).pop(name, None)
        vars(count).update(_counted)
        stop = should_stop_early(cfg, valid_loss)
        _counted.update({name: vars(count)[name] for name in _NAMES if name in vars(count)})
        return stop

    return count


def _with_count(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def state(self: Trainer) -> dict[str, Any]:
        result = state_dict(self)
        result["extra_state"][KEY] = dict(_counted)
        return result

    return state


def _restored(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(cfg: Any, trainer: Trainer, **more: Any) -> Any:
        extra_state, iterator = load_checkpoint(cfg, trainer, **more)
        _counted.clear()
        if resumed(extra_state, trainer) and not cfg.reset_meters:
            _counted.update(extra_state.get(KEY, {}))
        return extra_state, iterator

    return load


REPLACED = (
    ("fairseq_cli.train", "should_stop_early", _counting),
    (Trainer, "state_dict", _with_count),
    (checkpoint_utils, "load_checkpoint", _restored),
)
