"""If a process of a run is lost, the others log it.

What fairseq does: the remaining processes end with a traceback of torch's collectives ("Connection closed by peer"),
which does not say that another process died.

The patch: they also log this, with the update.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer

from linformer_fairseq.training.process_group import naming_lost_process


def _with_cause(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def named(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        with naming_lost_process(f"update {self.get_num_updates() + 1}"):
            return step(self, *args, **kwargs)

    return named


REPLACED = (
    (Trainer, "train_step", _with_cause),
    (Trainer, "valid_step", _with_cause),
)
