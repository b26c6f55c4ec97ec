"""Worker processes: order, bounded look-ahead, errors, death, and an end with their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from data_prep.support.workers import _Worker, ordered_map
from linformer_fairseq.files.errors import UserError
from tests.conftest import REPOSITORY
from tests.data_prep.processes import wait_for_empty_group

_factor = 1


def set_factor(factor: int) -> None:
    global _factor
    _factor = factor


def slow_first(number: int) -> tuple[int, int]:
    time.sleep(0.2 if number == 0 else 0)
    return number * _factor, os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise UserError("number 3 is bad")
    return number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    results = list(ordered_map(slow_first, range(20), workers, set_factor, (7,)))
    set_factor(1)
    assert [number for number, _ in results] == [7 * number for number in range(20)]
    assert (os.getpid() in {process for _, process in results}) == (workers == 1)


def test_only_a_few_items_are_taken_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    results = ordered_map(slow_first, items(), 2)
    next(results)
    assert taken <= 4
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_is_raised_here(workers: int) -> None:
    results = ordered_map(fail_at_three, range(10), workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="number 3 is bad"):
        list(results)


def test_a_worker_that_dies_is_said() -> None:
    with pytest.raises(UserError, match=r"a worker process died.*fewer --workers"):
        list(ordered_map(die, range(3), 2))


def die_while_writing(number: int) -> bytes:
    if number == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return bytes(1 << 28)


@pytest.mark.slow
def test_a_worker_that_dies_while_it_writes_its_result_is_said() -> None:
    def items() -> Iterator[int]:
        yield from (0, 1)
        time.sleep(1)
        yield from (2, 3)

    with pytest.raises(UserError, match="a worker process died"):
        for _ in ordered_map(die_while_writing, items(), 2):
            pass


@pytest.mark.parametrize("workers", [1, 2])
def test_an_initializer_that_fails_is_an_error_here(workers: int) -> None:
    with pytest.raises(UserError, match="number 3 is bad"):
        list(ordered_map(slow_first, range(3), workers, fail_at_three, (3,)))


def test_a_worker_whose_parent_is_gone_ends_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    worker = _Worker(slow_first, None, ())
    worker.compute(1)
    worker._connection.close()
    worker._process.join(20)
    assert worker._process.exitcode == 0 and capfd.readouterr().err == ""


def test_no_workers_are_refused() -> None:
    with pytest.raises(UserError, match="--workers 0"):
        list(ordered_map(slow_first, range(3), 0))


@pytest.mark.slow
def test_workers_end_with_a_killed_parent() -> None:
    program = (
        "from tests.data_prep.support.test_workers import slow_first\n"
        "from data_prep.support.workers import ordered_map\n"
        "if __name__ == '__main__':\n"
        "    for result in ordered_map(slow_first, iter(int, 1), 2): print(result, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline()
    process.kill()
    process.communicate()
    wait_for_empty_group(process.pid)
