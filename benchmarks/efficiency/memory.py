"""Peak memory of a call beyond the memory in use before it, and the search for the largest batch that fits.

/proc is read directly, because psutil provides neither the high-water mark of the resident memory (VmHWM) and its reset
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

from linformer_fairseq.files.memory import is_out_of_memory

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_of(call: Callable[[], Any], device: torch.device) -> int | None:
    """Peak memory of a call in bytes; None if the system does not report it.

    On a GPU this is what torch allocated; otherwise the resident memory of the process by Linux's high-water mark.
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
    """Peak memory of this process since `restart`, beyond the memory in use when the watch was created.

    On a GPU this is all that torch allocated; otherwise the resident memory of the process by Linux's high-water mark.
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
            with contextlib.suppress(OSError):  # `peak` is then since the start of the process
                _CLEAR.write_text("5")

    def peak(self) -> int | None:
        """The peak in bytes; None if the system does not report it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return torch.cuda.max_memory_allocated(self.device)
        return _bytes(_STATUS, "VmHWM") - self.before if _STATUS.exists() else None


@contextlib.contextmanager
def no_more_than_there_is(device: torch.device) -> Iterator[None]:
    """Makes allocations of more main memory than available fail, where Linux would kill the process."""
    if device.type != "cpu" or not _STATUS.exists():  # not Linux, or a GPU, where such allocations fail anyway
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
    """Available main memory in bytes."""
    return _bytes(Path("/proc/meminfo"), "MemAvailable")


def largest(fits: Callable[[int], bool], at_most: int) -> int:
    """The largest number up to ``at_most`` that fits, 0 if 1 does not: by doubling, then by bisection.

    Args:
        fits: called at most once for each number; if a number fits, so do all below it.
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
    """Return cached memory to the system or the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        _trim()


def status_of(error: BaseException) -> str:
    """Status of a cell that has no time because of an error."""
    return "out_of_memory" if is_out_of_memory(error) else "failed"


def _bytes(file: Path, field: str) -> int:
    lines = file.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


@contextlib.contextmanager
def _freed_at_once() -> Iterator[None]:
    """Returns every tensor to the system when it is freed; by default the heap keeps a varying amount of memory.

    glibc does not adjust its thresholds any more once they have been set, so afterwards they are set to the values that
    it would have reached in a process with large tensors.
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
