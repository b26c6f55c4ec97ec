"""Records signals that ask a run to stop; the run checks for them between updates.

SIGTERM and SIGUSR1 are sent by users, SLURM (``sbatch --signal``) and torchrun. SIGUSR2 is submitit's: if submitit has
installed its handler, it is called after the checkpoint is written, and requeues the job.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

# Not used by Python, shells or SLURM themselves: the batch scripts requeue the job if they see it.
STOPPED_STATUS = 85
"""The exit status of a run that was stopped and has saved a checkpoint."""
STOPPING = (signal.SIGTERM, signal.SIGUSR1)
_SUBMITIT = signal.SIGUSR2

_received: list[int] = []
_before: dict[int, Any] = {}


class Stopped(SystemExit):
    """The run was stopped by a signal.

    Args:
        exit_code: of the process: 85 with a checkpoint saved, 1 without (`resuming.saves_last`), 128 + the signal's
            number before the first update.
        updates: total number of updates.
        number: number of the signal.
    """

    def __init__(self, exit_code: int, updates: int, number: int) -> None:
        super().__init__(exit_code)
        self.updates = updates
        self.signal = signal.Signals(number).name


def listen() -> None:
    """Record the signals from now on instead of ending the process; another call has no effect.

    Does nothing outside the main thread: Python allows handlers only there.
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
    """Return the number of the first signal received, 0 if none."""
    return _received[0] if _received else 0


def hand_on(number: int) -> Exception | None:
    """Call the handler that a signal had before `listen`, if any: submitit's, which requeues the job.

    The process then ends, and further signals are ignored: at exit, Python restores the default handlers, and a second
    signal would change the status.

    Returns:
        why the job was not requeued; None if it was, or there is no such handler.
    """
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)
    before = _before.get(number)
    if callable(before):
        try:
            before(number, None)
        except SystemExit:  # submitit's own status; the caller ends the process with ours
            return None
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            # submitit's UncompletedJobError, such as after max_num_timeout restarts; or scontrol has failed
            logger.error("%s Submit it again to continue.", error)
            return error
    return None
