"""Small functions that the configs call as ``${name:argument,...}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

PRECISIONS = ("fp16", "bf16", "fp32")


def multiply(one: int, other: int) -> int:
    """Their product."""
    return one * other


def divide(total: int, part: int, what: str) -> int:
    """``total / part``, refused where it is not a whole number of at least 1.

    Raises:
        ValueError: naming both numbers and ``what`` they are.
    """
    if part < 1 or total < part or total % part:
        raise ValueError(f"{what}: {total:,} is not a whole multiple of {part:,}; change one of them")
    return total // part


def update_freq(total: int, batch: int, length: int, world_size: int) -> int:
    """Batches of one process that make an update of ``total`` tokens (or sentences, with a length of 1).

    Raises:
        ValueError: they do not add up to it.
    """
    unit = "tokens" if length > 1 else "sentences"
    each = f"dataset.batch_size {batch} x {length} tokens" if length > 1 else f"dataset.batch_size {batch}"
    what = (
        f"run.{unit}_per_update is {total:,}, but one batch on each of {world_size} devices ({each}, "
        f"distributed_training.distributed_world_size {world_size}) makes {batch * length * world_size:,} {unit}"
    )
    return divide(total, batch * length * world_size, what)


def is_precision(wanted: str, precision: str) -> bool:
    """Whether the run computes in ``wanted``.

    Raises:
        ValueError: ``precision`` is none that there is.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"run.precision is {precision!r}; expected one of {', '.join(PRECISIONS)}")
    return precision == wanted


def choose(condition: bool, yes: Any, no: Any) -> Any:
    """``yes`` or ``no``."""
    return yes if condition else no


def run_of(checkpoint: str) -> str:
    """Name of the run folder that holds a checkpoint."""
    return Path(checkpoint).absolute().parent.name


def register() -> None:
    """Make them known to omegaconf; calling again is harmless."""
    for function in (multiply, divide, update_freq, is_precision, choose, run_of):
        OmegaConf.register_new_resolver(function.__name__, function, replace=True)
