"""The process group for messages beside gradients: small numbers and texts, over the CPU.

It is a group of its own on gloo, so that asking all processes after each update does not make a GPU wait.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from linformer_fairseq.training.run_report import LOG

Result = TypeVar("Result")

# How gloo and NCCL word it; torch has an own exception for some of their errors only.
_SIGNS = (
    *("closed by peer", "socket closed", "unexpectedly closed", "reset by peer", "remote process exited"),
    *("broken pipe", "connection refused", "timed out"),
)


@functools.cache
def _group() -> Any:
    return dist.new_group(backend="gloo")


def highest(value: int) -> int:
    """Return the highest of all processes' values; every process has to call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    tensor = torch.tensor([value], dtype=torch.int64)
    with naming_lost_process("between updates"):
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=_group())
    return int(tensor.item())


def wait() -> None:
    """Return once every process is here."""
    highest(0)


def leave() -> None:
    """Once every process is here, take down all process groups, whose threads can abort a process that ends."""
    wait()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        _group.cache_clear()


def gather(text: str) -> list[str]:
    """Return all processes' texts, by rank; every process has to call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return [text]
    texts: list[Any] = [None] * dist.get_world_size()
    with naming_lost_process("between updates"):
        dist.all_gather_object(texts, text, group=_group())
    return [str(entry) for entry in texts]


def on_first_rank(look: Callable[[], Result], failed: type[Exception]) -> Result | None:
    """Run ``look`` on the first process, while the others wait for it.

    Args:
        look: what only the first process does, and all of them have to know of.
        failed: what the others raise where it fails.

    Returns:
        what ``look`` returned, on the first process; None on every other one.

    Raises:
        Exception: what ``look`` raised, on the first process.
        failed: with the same text, on every other one.
    """
    result: Result | None = None
    failure: Exception | None = None
    if not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0:
        try:
            result = look()
        except Exception as error:
            failure = error
    said = gather("" if failure is None else str(failure) or type(failure).__name__)[0]
    if failure is not None:
        raise failure
    if said:
        raise failed(said)
    return result


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


def _is_of_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistNetworkError) or any(sign in text for sign in _SIGNS)
