"""A pool of worker processes for steps whose work can be cut into independent pieces."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

from data_prep.support.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")


def default_workers() -> int:
    """One per core that this process may use."""
    return len(os.sched_getaffinity(0))


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Generator[Result, None, None]:
    """``function(item)`` for each item, in order, computed by ``workers`` processes.

    At most twice as many items as workers are taken from ``items`` before their results are asked for, so memory stays
    bounded. Nothing outlives this process: not even where it is killed.

    Args:
        function: importable by name, as are its arguments and results.
        items: read one by one, in this process.
        workers: with 1 everything happens in this process.
        initializer: called once in each worker, with ``initargs``.
        initargs: for ``initializer``.

    Raises:
        DataError: ``workers`` below 1, a worker that died; and whatever ``function`` raises.
    """
    if workers < 1:
        raise DataError(f"--workers {workers}: expected at least 1")
    if workers == 1:
        if initializer:
            initializer(*initargs)
        yield from map(function, items)
        return
    # Spawned, not forked: libraries with threads of their own do not survive a fork.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (initializer, initargs))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            with _interrupts_held_back():  # a worker may be started here
                waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process died, which the system does to it when memory runs out; "
            "run the same command again, with fewer --workers (in a script of your own, call this below "
            '`if __name__ == "__main__":`, as each worker imports the script)'
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Ctrl-C waits until the block is left; a process that starts in it never gets one, from its first instruction on.

    Ctrl-C reaches the whole group, but it is for this process to end its workers.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer:
        initializer(*initargs)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
