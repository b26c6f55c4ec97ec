"""A pool of worker processes for steps whose work can be divided into independent pieces."""

import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any, TypeVar

from linformer_fairseq.files.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_WORKERS = 1_000
"""Processes; each takes tens of megabytes, and no machine has so many cores."""


def default_workers() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def check_workers(workers: int) -> None:
    """Raises:
    UserError: ``workers`` below 1 or above `MOST_WORKERS`.
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise UserError(f"--workers {workers}: expected 1 to {MOST_WORKERS:,}")


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Generator[Result, None, None]:
    """``function(item)`` for each item, in order, computed by ``workers`` processes.

    At most twice as many items as workers are read ahead of the results, so memory is bounded. The workers end with
    this process, even if it is killed.

    Args:
        function: a function that can be pickled, like its arguments and results.
        items: read one by one, in this process.
        workers: number of processes; with 1, everything runs in this process.
        initializer: called once in each worker, with ``initargs``.
        initargs: for ``initializer``.

    Raises:
        UserError: see `check_workers`, or a worker died; and whatever ``function`` raises.
    """
    check_workers(workers)
    if workers == 1:
        if initializer:
            initializer(*initargs)
        yield from map(function, items)
        return
    # One pipe and thread per worker: a worker that dies breaks only its own pipe. The workers of concurrent.futures
    # share a queue: one that dies while writing to it would leave all others waiting forever.
    pool = [_Worker(function, initializer, initargs) for _ in range(workers)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in pool:
        idle.put(worker)

    def compute(item: Item) -> Result:
        worker = idle.get()
        try:
            result: Result = worker.compute(item)
            return result
        finally:
            idle.put(worker)

    waiting: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(workers)
    try:
        for item in items:
            waiting.append(threads.submit(compute, item))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for worker in pool:
            worker.kill()
        threads.shutdown()  # none waits any longer: its worker is dead
        for worker in pool:
            worker.close()


class _Worker:
    """A worker process."""

    def __init__(
        self, function: Callable[[Any], Any], initializer: Callable[..., None] | None, initargs: tuple[Any, ...]
    ) -> None:
        # Spawned, not forked: libraries with threads of their own do not survive a fork.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, function, initializer, initargs), daemon=True)
        with _interrupts_held_back():
            self._process.start()
        theirs.close()

    def compute(self, item: object) -> Any:
        """Raises:
        UserError: the process is dead; and whatever its function raises.
        """
        try:
            self._connection.send(item)
            done, value = self._connection.recv()
        except (EOFError, OSError):
            raise UserError(
                "a worker process died, which the system does to it when memory runs out; "
                "run the same command again, with fewer --workers (in a script of your own, call this below "
                '`if __name__ == "__main__":`, as each worker imports the script)'
            ) from None
        if done:
            return value
        raise value

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def close(self) -> None:
        """Release the resources of a process that was killed."""
        self._process.join()
        self._connection.close()


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Delays Ctrl-C until the block ends; processes started in the block ignore it.

    Ctrl-C is sent to the whole process group, but only this process should react and end its workers.
    """
    resource_tracker.ensure_running()  # otherwise it is started with the first process and unblocks Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    connection: Connection,
    function: Callable[[Any], Any],
    initializer: Callable[..., None] | None,
    initargs: tuple[Any, ...],
) -> None:
    """What a worker process does: answer each item with (True, result) or (False, exception)."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepared = not initializer
    while (message := _next(connection)) is not None:
        item = pickle.loads(message)
        try:
            if initializer and not prepared:
                initializer(*initargs)
                prepared = True
            answer = True, function(item)
        except Exception as error:
            error.add_note("in a worker process:\n" + traceback.format_exc())
            answer = False, error
        reply = ForkingPickler.dumps(answer)
        with suppress(OSError):  # the parent is dead, as `_next` will notice
            connection.send_bytes(reply)


def _next(connection: Connection) -> bytes | None:
    """The next pickled item; None when the parent is dead."""
    try:
        return connection.recv_bytes()
    except (EOFError, OSError):
        return None


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
