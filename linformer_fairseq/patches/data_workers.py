"""A signal to all processes of a run does not end its data workers.

What fairseq does: nothing. SLURM sends SIGTERM to every process of a job when it is cancelled, requeued or preempted.
The run itself then finishes its update and saves (`stopping`), but fairseq's data workers would end at once, and torch
fails in the middle of the update if a data worker has died.

The patch: a data worker ignores SIGTERM unless its parent process sends it, as torch does to shut it down.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from fairseq.data.iterators import BackgroundConsumer, CountingIterator
from torch.utils.data import DataLoader


def heed_parent_only(worker: int) -> None:
    """Ignore SIGTERM unless the parent sends it: the ``worker_init_fn`` of workers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_wait_for_parent, args=(os.getppid(),), daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    # Unlike a Python signal handler, this call returns the sender's process id.
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


def _from_birth(run: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(run)
    def run_and_fork(self: BackgroundConsumer) -> None:
        # This thread starts the workers, which inherit its signal mask: it also protects them until they call
        # `heed_parent_only`. The main thread still receives the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        run(self)

    return run_and_fork


def _with_steady_workers(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def start_counting(self: CountingIterator, iterable: Any, *args: Any, **kwargs: Any) -> None:
        # A loader, or a BufferedIterator around it. Without a buffer, its workers are forked here.
        loader = getattr(iterable, "_iterable", iterable)
        if not isinstance(loader, DataLoader):
            return start(self, iterable, *args, **kwargs)
        if loader.worker_init_fn is None:
            loader.worker_init_fn = heed_parent_only
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            start(self, iterable, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return start_counting


REPLACED = (
    (BackgroundConsumer, "run", _from_birth),
    (CountingIterator, "__init__", _with_steady_workers),
)
