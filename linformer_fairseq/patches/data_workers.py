"""A signal to all processes of a run does not take the data from under it.

What fairseq does: nothing. SLURM sends SIGTERM to every process of a job when it is cancelled, requeued or preempted.
The run itself then finishes its update and saves (`stopping`), but fairseq's data workers would be gone at once, and
torch ends a run whose data workers died, in the middle of the update.

The patch: a data worker heeds SIGTERM only when its own run sends it, as torch does to clear up.
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
    """Do what each worker does first. ``worker`` is its number, as torch gives it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_wait_for_parent, args=(os.getppid(),), daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    # A handler is not told who sent the signal; this call is.
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


def _from_birth(run: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(run)
    def run_and_fork(self: BackgroundConsumer) -> None:
        # This thread starts the workers, and they inherit what it blocks: before they come to `heed_parent_only`, too.
        # The main thread goes on to receive the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        run(self)

    return run_and_fork


def _with_steady_workers(get_iterator: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get_iterator)
    def get_iterator_for_epoch(self: EpochBatchIterator, *args: Any, **kwargs: Any) -> Any:
        iterator = get_iterator(self, *args, **kwargs)
        # CountingIterator around BufferedIterator around the loader, which starts its workers when it is first read
        loader = getattr(getattr(iterator, "_itr", None), "_iterable", None)
        if isinstance(loader, DataLoader) and loader.worker_init_fn is None:
            loader.worker_init_fn = heed_parent_only
        return iterator

    return get_iterator_for_epoch


REPLACED = (
    (BackgroundConsumer, "run", _from_birth),
    (EpochBatchIterator, "_get_iterator_for_epoch", _with_steady_workers),
)
