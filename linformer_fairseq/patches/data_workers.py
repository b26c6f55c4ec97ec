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

from fairseq.data.iterators import BackgroundConsumer, EpochBatchIterator
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


def _with_steady_workers(get_iterator: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get_iterator)
    def get_iterator_for_epoch(self: EpochBatchIterator, *args: Any, **kwargs: Any) -> Any:
        iterator = get_iterator(self, *args, **kwargs)
        # CountingIterator around BufferedIterator around the loader, which starts its workers at the first read
        loader = getattr(getattr(iterator, "_itr", None), "_iterable", None)
        if isinstance(loader, DataLoader) and loader.worker_init_fn is None:
            loader.worker_init_fn = heed_parent_only
        return iterator

    return get_iterator_for_epoch


REPLACED = (
    (BackgroundConsumer, "run", _from_birth),
    (EpochBatchIterator, "_get_iterator_for_epoch", _with_steady_workers),
)
