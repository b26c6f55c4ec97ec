"""The thread that reads ahead does not outlive its iterator, nor the shutdown of Python."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from fairseq.data.iterators import BufferedIterator

import linformer_fairseq.models  # noqa: F401 (installs the patches)
from linformer_fairseq.patches import buffered_batches

# Functions that are registered with atexit first are called last.
PROGRAM = """
import atexit, threading
atexit.register(lambda: print(threading.active_count()))
import linformer_fairseq.models
from fairseq.data.iterators import BufferedIterator
batches = BufferedIterator(2, range(1000))
print(next(batches), threading.active_count())
"""


def test_a_thread_ends_with_its_iterator() -> None:
    before = set(threading.enumerate())
    batches = BufferedIterator(2, range(1000))
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    (thread,) = set(threading.enumerate()) - before
    assert thread.is_alive(), "it waits for a place in the queue"
    del batches
    assert not thread.is_alive()


def test_a_thread_that_does_not_end_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffered_batches, "PATIENCE", 0.1)
    ready, go_on = threading.Event(), threading.Event()

    class Stuck:
        def __len__(self) -> int:
            return 1000

        def __iter__(self):
            yield 0
            ready.set()
            go_on.wait()
            yield 1

    batches = BufferedIterator(2, Stuck())
    assert next(batches) == 0 and ready.wait(timeout=60)
    thread = batches._consumer
    del batches
    assert thread.is_alive()
    go_on.set()
    thread.join(timeout=60)
    assert not thread.is_alive(), "it ends after the batch that it waited for"


@pytest.mark.slow
def test_a_thread_ends_before_the_process_does() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["0", "2", "1"]
