"""Timing of calls in rounds, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

OUTLIER = 1.5
"""A round that took more than this times the median over the rounds is called an outlier; it is still included."""
FEW = 5
"""Fewest rounds for which quartiles are given."""
Call = Callable[[], Any]
Name = TypeVar("Name")


def synchronise(device: torch.device) -> None:
    """Wait for the work that was started on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Call, device: torch.device) -> float:
    """Wall-clock seconds of one call, including the work that it starts on the device."""
    synchronise(device)
    started = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - started


def in_rounds(
    calls: Mapping[Name, Callable[[], float]], rounds: int
) -> tuple[dict[Name, list[float]], dict[Name, Exception]]:
    """Make each call once in every round; every round starts with another call.

    Args:
        calls: each returns its seconds, or another value to compare.
        rounds: number of rounds.

    Returns:
        The returned values by round, and the errors of calls that failed, which are not repeated.
    """
    taken: dict[Name, list[float]] = {name: [] for name in calls}
    failed: dict[Name, Exception] = {}
    names = list(calls)
    for number in range(rounds):
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            if name in failed:
                continue
            try:
                taken[name].append(calls[name]())
            except (RuntimeError, MemoryError) as error:
                failed[name] = error.with_traceback(None)  # a traceback would keep tensors alive
                del taken[name]
    return taken, failed


def all_in_rounds(calls: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, list[float]]:
    """`in_rounds` for calls of which none may fail.

    Raises:
        RuntimeError, MemoryError: one failed.
    """
    taken, failed = in_rounds(calls, rounds)
    for error in failed.values():
        raise error
    return taken


def outliers(values: Sequence[float]) -> int:
    """Number of outliers among the seconds of a call."""
    return sum(value > OUTLIER * statistics.median(values) for value in values)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, statistics.median(values), third


def figures(values: list[float]) -> dict[str, Any]:
    """The seconds of a call in the rounds, for a cell."""
    first, median, third = quartiles(values)
    return {"seconds": median, "seconds_q1": first, "seconds_q3": third, "all_seconds": values}


def times_faster(
    baseline: Sequence[float], other: Sequence[float], per: tuple[float, float] = (1.0, 1.0)
) -> tuple[float, float, float]:
    """Quartiles over the rounds of baseline / other.

    Args:
        baseline, other: seconds of the same rounds.
        per: amount of work in a call of each, such as tokens, if not the same.
    """
    return quartiles([(one / per[0]) / (two / per[1]) for one, two in zip(baseline, other, strict=True)])
