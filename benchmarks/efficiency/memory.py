"""How much more memory a call takes at its peak than what was taken before, and what still fits into memory.

/proc is read here, not by psutil, which has neither the high-water mark of the resident memory (VmHWM) with its reset
nor the memory that RLIMIT_DATA counts (VmData: psutil's ``data`` includes the stack).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_of(call: Callable[[], Any], device: torch.device) -> int | None:
    """Bytes; None where the system does not say.

    On a GPU what torch allocated; otherwise the process's resident memory, whose high-water mark Linux resets.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    try:
        with _freed_at_once():
            _CLEAR.write_text("5")
            before = _bytes(_STATUS, "VmRSS")
            call()
            return max(0, _bytes(_STATUS, "VmHWM") - before)
    except OSError:
        return None


class Watch:
    """How much more memory this process has, at its peak since `restart`, than when the watch was made.

    On a GPU all that torch allocated; otherwise the process's resident memory, whose high-water mark Linux resets.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.before = _bytes(_STATUS, "VmRSS") if device.type == "cpu" and _STATUS.exists() else 0

    def restart(self) -> None:
        """Forget the peak so far."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            with contextlib.suppress(OSError):  # then `peak` is that of the process since it began
                _CLEAR.write_text("5")

    def peak(self) -> int | None:
        """Bytes; None where the system does not say."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return torch.cuda.max_memory_allocated(self.device)
        return _bytes(_STATUS, "VmHWM") - self.before if _STATUS.exists() else None


@contextlib.contextmanager
def no_more_than_there_is(device: torch.device) -> Iterator[None]:
    """Let a call on the CPU that asks for more main memory than there is fail, where Linux would kill the process."""
    if device.type != "cpu" or not _STATUS.exists():  # another system than Linux, or a GPU, which says so itself
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _bytes(_STATUS, "VmData") + available() * 9 // 10
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def available() -> int:
    """Bytes of main memory that can be taken."""
    return _bytes(Path("/proc/meminfo"), "MemAvailable")


def largest(fits: Callable[[int], bool], at_most: int) -> int:
    """The largest number up to ``at_most`` that fits, 0 if 1 does not: by doubling, then by bisection.

    Args:
        fits: asked of each number once at most; if a number fits, so do all below it.
        at_most: at least 1.
    """
    good, bad = 0, 1
    while bad <= at_most and fits(bad):
        good, bad = bad, bad * 2
    if bad > at_most:
        if good == at_most or fits(at_most):
            return at_most
        bad = at_most
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def release(device: torch.device) -> None:
    """Hand back what is kept for later use."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        _trim()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error says; on a CPU it is a RuntimeError like others."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def status_of(error: BaseException) -> str:
    """Status of a cell that has no time because of an error."""
    return "out_of_memory" if is_out_of_memory(error) else "failed"


def _bytes(file: Path, field: str) -> int:
    lines = file.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


@contextlib.contextmanager
def _freed_at_once() -> Iterator[None]:
    """Hands every tensor back to the system when it is freed; else the heap keeps now more, now less of them.

    glibc's thresholds no longer move once they have been set, so they are left where a process with large tensors has
    moved them by itself.
    """
    _mallopt(_MMAP_THRESHOLD, 1 << 16)
    _trim()
    try:
        yield
    finally:
        _mallopt(_MMAP_THRESHOLD, 32 << 20)
        _mallopt(_TRIM_THRESHOLD, 64 << 20)


def _mallopt(parameter: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(parameter, value)


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
