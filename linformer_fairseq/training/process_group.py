"""The process group for messages other than gradients: small numbers and texts, on the CPU.

It is a separate group on gloo, so that communication after each update does not make a GPU wait.
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

# Messages of gloo and NCCL; torch has its own exception for only some of their errors.
_SIGNS = (
    *("closed by peer", "socket closed", "unexpectedly closed", "reset by peer", "remote process exited"),
    *("broken pipe", "connection refused", "timed out"),
)


@functools.cache
def _group() -> Any:
    return dist.new_group(backend="gloo")


def highest(value: int) -> int:
    """Return the maximum over all processes; all must call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    tensor = torch.tensor([value], dtype=torch.int64)
    with naming_lost_process("between updates"):
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=_group())
    return int(tensor.item())


def wait() -> None:
    """Wait until all processes call this."""
    highest(0)


def leave() -> None:
    """Wait for all processes, then destroy all process groups: their threads can abort a process that exits."""
    wait()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        _group.cache_clear()


def gather(text: str) -> list[str]:
    """Return the texts of all processes, by rank; all must call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return [text]
    texts: list[Any] = [None] * dist.get_world_size()
    with naming_lost_process("between updates"):
        dist.all_gather_object(texts, text, group=_group())
    return [str(entry) for entry in texts]


def on_first_rank(look: Callable[[], Result], failed: type[Exception]) -> Result | None:
    """Run ``look`` on the first process, while the others wait for it.

    Args:
        look: a function that only the first process calls.
        failed: the exception of the others if it fails.

    Returns:
        the result of ``look`` on the first process; None on the others.

    Raises:
        Exception: that of ``look``, on the first process.
        failed: with the same text, on the others.
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
    """Log if an error is caused by the loss of another process; the error is raised again.

    Args:
        where: beginning of the message, such as ``update 7``.
    """
    try:
        yield
    except RuntimeError as error:
        if dist.is_initialized() and dist.get_world_size() > 1 and _is_of_connection(error):
            LOG.error(
                f"{where}: process {dist.get_rank()} of {dist.get_world_size()} lost its connection to another one and "
                "ends. That one was killed (memory, preemption) or failed; see its own output. Earlier "
                "checkpoints are kept"
            )
        raise


def _is_of_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistNetworkError) or any(sign in text for sign in _SIGNS)
