"""What the processes of a run tell each other beside gradients: small numbers and texts, over the CPU.

A group of its own on gloo, so that a question after each update costs no GPU a wait.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist

from linformer_fairseq.training.lost_process import naming_lost_process


@functools.cache
def _group() -> Any:
    return dist.new_group(backend="gloo")


def highest(value: int) -> int:
    """The highest of all processes' values; every process has to ask."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    tensor = torch.tensor([value], dtype=torch.int64)
    with naming_lost_process("between updates"):
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=_group())
    return int(tensor.item())


def wait() -> None:
    """Until every process is here."""
    highest(0)


def leave() -> None:
    """Once every process is here, take down all process groups, whose threads can abort a process that ends."""
    wait()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        _group.cache_clear()


def gather(text: str) -> list[str]:
    """All processes' texts, by rank; every process has to ask."""
    if not (dist.is_available() and dist.is_initialized()):
        return [text]
    texts: list[Any] = [None] * dist.get_world_size()
    with naming_lost_process("between updates"):
        dist.all_gather_object(texts, text, group=_group())
    return [str(entry) for entry in texts]
