"""The death of one process is named by the others.

What fairseq does: the processes that are left end with a traceback of torch's collectives ("Connection closed by
peer"), from which one has to know that another process died.

Here: they also log it in words, with the update.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from fairseq.trainer import Trainer

from linformer_fairseq.compat.patching import replace
from linformer_fairseq.training.run_log import LOG

# How gloo and NCCL word it; torch has an own exception for some of their errors only.
_SIGNS = (
    *("closed by peer", "socket closed", "unexpectedly closed", "reset by peer", "remote process exited"),
    *("broken pipe", "connection refused", "timed out"),
)


@contextmanager
def naming_lost_process(where: str) -> Iterator[None]:
    """Log in words that another process is gone, where that is why something fails; the error goes on.

    Args:
        where: what the log begins with, as ``update 7``.
    """
    try:
        yield
    except RuntimeError as error:
        if dist.is_initialized() and dist.get_world_size() > 1 and _is_of_connection(error):
            LOG.error(
                f"{where}: process {dist.get_rank()} of {dist.get_world_size()} lost its connection to another one and "
                "ends. That one was killed (memory, preemption) or failed; its own output says more. The checkpoints "
                "saved before are kept, and the same command goes on from the last one"
            )
        raise


def _with_cause(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def named(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        with naming_lost_process(f"update {self.get_num_updates() + 1}"):
            return step(self, *args, **kwargs)

    return named


def _is_of_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistNetworkError) or any(sign in text for sign in _SIGNS)


def install() -> None:
    """Make training and validation steps say so when another process is gone."""
    replace(Trainer, "train_step", _with_cause)
    replace(Trainer, "valid_step", _with_cause)
