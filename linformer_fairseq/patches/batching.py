"""A run that is resumed with another setup logs what is preserved.

What fairseq does: it resumes with another number of processes or another batch size without a message.

The patch: every checkpoint records the number of processes and the batch size; a resumed run compares them with its
own, and logs what is preserved, what is approximate and what is not preserved.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from linformer_fairseq.training.resuming import resumed
from linformer_fairseq.training.run_report import LOG

KEY = "linformer_batching"
"""Name of the record in a checkpoint's ``extra_state``."""

_NAMES = {
    "processes": "processes",
    "batch_size": "batch_size (sequences per process)",
    "max_tokens": "max_tokens (per process)",
    "update_freq": "update_freq (micro-batches per update)",
    "tokens_per_sample": "tokens_per_sample",
    "length_window": "length_window (examples sorted by length together)",
}

Batching = dict[str, Any]


def batching_of(cfg: Any) -> Batching:
    """Return the options that determine the examples of an update, as plain values from fairseq's config."""
    return {
        "processes": int(cfg.distributed_training.distributed_world_size),
        "batch_size": cfg.dataset.batch_size,
        "max_tokens": cfg.dataset.max_tokens,
        "update_freq": [int(count) for count in cfg.optimization.update_freq],
        "tokens_per_sample": getattr(cfg.task, "tokens_per_sample", None),
        "length_window": getattr(cfg.task, "length_window", None) or None,  # 0 means none
    }


def difference(before: Batching, now: Batching, epoch: int) -> str | None:
    """Return the message for the user; None if nothing differs.

    Args:
        before: the record of the checkpoint.
        now: that of the resumed run.
        epoch: epoch in which it is resumed, from 1; ``update_freq`` may depend on it.
    """
    last = max(epoch, len(before["update_freq"]), len(now["update_freq"]))
    epochs = range(epoch, last + 1)  # later ones are as the last of these
    changed = [name for name in _NAMES if before.get(name) != now[name]]
    if all(_frequency(before, one) == _frequency(now, one) for one in epochs):  # [1, 1] is [1]
        changed = [name for name in changed if name != "update_freq"]
    if not changed:
        return None
    same_batches = set(changed) <= {"processes", "update_freq"}
    other = next((one for one in epochs if not same_batches or _batches(before, one) != _batches(now, one)), None)
    lines = [
        "this run resumes from a checkpoint with another setup: "
        + ", ".join(f"{_NAMES[name]} {before.get(name)} -> {now[name]}" for name in changed),
        "preserved: parameters, optimizer state, number of updates and so the position in the learning rate "
        "schedule, best score, epoch",
    ]
    if same_batches:
        lines.append("preserved: the order of the batches and the position among them, up to one batch per process")
        lines.append("not preserved: the random numbers of dropout")
    else:
        lines.append("approximate: the position in the epoch; the same fraction of it counts as seen")
        lines.append(
            "not preserved: the composition and order of batches, so some examples of this epoch are seen twice or not "
            "at all; the random numbers of dropout"
        )
    if other is None:
        lines.append(f"preserved: the batch size of an update, {_effective(now, epoch)}")
    else:
        lines.append(
            f"not preserved: the batch size of an update{f' in epoch {other}' if other > epoch else ''}, "
            f"{_effective(before, other)} -> {_effective(now, other)}; the learning rate and the number of updates are "
            "not adapted to it"
        )
    return "\n  ".join(lines)


def _batches(batching: Batching, epoch: int) -> int:
    """Return the number of micro-batches per update, over all processes."""
    return int(batching["processes"]) * _frequency(batching, epoch)


def _frequency(batching: Batching, epoch: int) -> int:
    """Return the number of micro-batches per update of a process."""
    frequencies: list[int] = batching["update_freq"]
    return frequencies[min(epoch, len(frequencies)) - 1]


def _effective(batching: Batching, epoch: int) -> str:
    count = _batches(batching, epoch)
    if batching["batch_size"] is not None:
        return f"{count * batching['batch_size']:,} sequences"
    if batching["max_tokens"] is not None:
        return f"at most {count * batching['max_tokens']:,} tokens"
    return f"{count:,} micro-batches"


def _with_record(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def state(self: Trainer) -> dict[str, Any]:
        result = state_dict(self)
        result["extra_state"][KEY] = batching_of(self.cfg)
        return result

    return state


def _compared(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(cfg: Any, trainer: Trainer, **more: Any) -> Any:
        extra_state, iterator = load_checkpoint(cfg, trainer, **more)
        if resumed(extra_state, trainer) and not cfg.reset_dataloader and KEY in extra_state:
            told = difference(extra_state[KEY], batching_of(trainer.cfg), iterator.epoch)
            if told is not None:
                LOG.warning(told)
        return extra_state, iterator

    return load


REPLACED = (
    (Trainer, "state_dict", _with_record),
    (checkpoint_utils, "load_checkpoint", _compared),
)
