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
import atexit, sys
atexit.register(lambda: print(batches._consumer.is_alive()))
import torch
import linformer_fairseq.models
from fairseq.data.iterators import BufferedIterator
batches = BufferedIterator(2, torch.utils.data.DataLoader(list(range(1000)), num_workers=2))
print(next(batches).item(), batches._consumer.is_alive())
sys.exit(85)
"""


def test_a_thread_ends_with_its_iterator() -> None:
    before = set(threading.enumerate())
    batches = BufferedIterator(2, range(1000))
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    (thread,) = set(threading.enumerate()) - before
    assert thread.is_alive(), "it waits for a place in the queue"
    del batches
    assert not thread.is_alive()


def test_a_thread_that_does_not_end_is_waited_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert thread.is_alive() and "within 0.1 s" in caplog.text
    go_on.set()
    thread.join(timeout=60)
    assert not thread.is_alive(), "it ends after the batch that it waited for"


def test_the_garbage_collector_may_run_in_the_thread() -> None:
    """It can then neither wait for itself nor take from a queue that it is putting something in."""
    ended = []

    class Source:
        def __len__(self) -> int:
            return 1000

        def __iter__(self):
            for number in range(1000):
                if number == 5:
                    buffered_batches._stop(threading.current_thread())
                    ended.append(number)
                yield number

    batches = BufferedIterator(2, Source())
    assert list(batches) == [0, 1, 2, 3, 4, 5] and ended == [5]


@pytest.mark.slow
def test_a_process_ends_its_threads_first_and_with_its_own_status() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (found.stdout.split(), found.returncode) == (["0", "True", "False"], 85)
