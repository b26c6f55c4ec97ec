"""The thread that reads batches ahead ends with the iterator that it reads for, and before the process does.

What fairseq does: `BackgroundConsumer` is a daemon thread that fills a queue with batches. Where an epoch is not read
to its end (`max_update`, `max_valid_steps`, a signal), nothing ends it. A thread that is inside torch while Python
shuts down can abort the process ("terminate called without an active exception", status 134), after everything was
saved: a SLURM job that was complete, or was to be requeued with status 85, counts as failed. And each validation that
stops at `max_valid_steps` leaves a thread and its data workers behind.

The patch: when a `BufferedIterator` is deleted, or at the latest when Python exits, its thread is told to stop, and is
waited for.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable

from fairseq.data.iterators import BackgroundConsumer, BufferedIterator

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds to wait for a thread, which may have to wait for a data worker's next batch."""


def _stop(thread: BackgroundConsumer) -> None:
    thread._max_len = 0  # it compares its number of batches with this one after each batch
    if thread is threading.current_thread():  # the garbage collector ran in it; it cannot wait for itself
        return
    deadline = time.monotonic() + PATIENCE
    while thread.is_alive():
        if time.monotonic() > deadline:
            logger.warning("the thread that reads batches ahead did not end within %g s", PATIENCE)
            return
        try:
            while True:  # it may be waiting for a place in the queue
                thread._queue.get_nowait()
        except queue.Empty:
            thread.join(0.01)


def _with_an_end(create_consumer: Callable[[BufferedIterator], None]) -> Callable[[BufferedIterator], None]:
    @functools.wraps(create_consumer)
    def create_and_stop_later(self: BufferedIterator) -> None:
        create_consumer(self)
        weakref.finalize(self, _stop, self._consumer)

    return create_and_stop_later


REPLACED = ((BufferedIterator, "_create_consumer", _with_an_end),)
