"""A signal that asks a run to stop is remembered, and the run looks when it suits it.

SIGTERM and SIGUSR1 are what people, SLURM (``sbatch --signal``) and torchrun send. SIGUSR2 is submitit's: where
submitit has put its own handler, that handler is called after the checkpoint is written, and requeues the job.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType
from typing import Any

# Not one that Python, a shell or SLURM uses themselves: batch scripts take it for "requeue me".
STOPPED_STATUS = 85
"""The exit status of a run that was stopped and has saved a checkpoint."""
STOPPING = (signal.SIGTERM, signal.SIGUSR1)
_SUBMITIT = signal.SIGUSR2

_received: list[int] = []
_before: dict[int, Any] = {}


class Stopped(SystemExit):
    """The run ended because a signal asked for it.

    Args:
        exit_code: of the process: 85 with a checkpoint saved, 128 + the signal's number before the first update.
        updates: done in all.
        number: the signal's.
    """

    def __init__(self, exit_code: int, updates: int, number: int) -> None:
        super().__init__(exit_code)
        self.updates = updates
        self.signal = signal.Signals(number).name


def listen() -> None:
    """Remember the signals from now on instead of ending the process; calling it again changes nothing.

    Outside the main thread nothing happens: Python allows handlers only there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPPING:
        _handle(number)
    if callable(signal.getsignal(_SUBMITIT)):
        _handle(_SUBMITIT)


def _handle(number: int) -> None:
    current = signal.getsignal(number)
    if current is not _remember:
        _before[number] = current
        signal.signal(number, _remember)


def _remember(number: int, frame: FrameType | None) -> None:
    _received.append(number)


def received() -> int:
    """Return the number of the first signal that came, 0 without one."""
    return _received[0] if _received else 0


def hand_on(number: int) -> None:
    """Call what was there for a signal before `listen`, if that was a function: submitit's handler, which requeues.

    From here on the process ends, and further signals are ignored: at its exit Python puts the default handlers back,
    and a second one would change its status.
    """
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)
    before = _before.get(number)
    if callable(before):
        with contextlib.suppress(SystemExit):  # submitit's own status; the caller ends the process with ours
            before(number, None)
