"""The death of one process is named by the others.

What fairseq does: the processes that are left end with a traceback of torch's collectives ("Connection closed by
peer"), from which one has to know that another process died.

Here: they also log it in words, with the update.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.trainer import Trainer

from linformer_fairseq.compat.patching import replace
from linformer_fairseq.training.run_log import LOG

# How gloo and NCCL word it; torch has an own exception for some of their errors only.
_SIGNS = ("closed by peer", "reset by peer", "remote process exited", "broken pipe", "connection refused", "timed out")


def _with_cause(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def named(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        try:
            return step(self, *args, **kwargs)
        except RuntimeError as error:
            if self.data_parallel_world_size > 1 and _is_of_connection(error):
                LOG.error(
                    f"update {self.get_num_updates() + 1}: process {self.data_parallel_rank} of "
                    f"{self.data_parallel_world_size} lost its connection to another one and ends. That one was killed "
                    "(memory, preemption) or failed; its own output says more. The checkpoints saved before are kept, "
                    "and the same command goes on from the last one"
                )
            raise

    return named


def _is_of_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.distributed.DistNetworkError) or any(sign in text for sign in _SIGNS)


def install() -> None:
    """Make training and validation steps say so when another process is gone."""
    replace(Trainer, "train_step", _with_cause)
    replace(Trainer, "valid_step", _with_cause)
