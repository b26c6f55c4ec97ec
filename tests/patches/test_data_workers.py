"""Data workers heed SIGTERM from their own run only, and do not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# An epoch that is not read to its end: the thread that fetches is full, and the run's exit has to end the worker.
PROGRAM = """
import multiprocessing, signal, sys, torch
import linformer_fairseq.models
from fairseq.data.iterators import EpochBatchIterator
from linformer_fairseq.patches import data_workers

class Numbers(torch.utils.data.Dataset):
    supports_prefetch = False
    def __getitem__(self, index): return self.from_birth
    def __len__(self): return 1000

heed = data_workers.heed_parent_only
def report(worker):
    Numbers.from_birth = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    heed(worker)
data_workers.heed_parent_only = report

epochs = EpochBatchIterator(
    Numbers(), list, [[i] for i in range(1000)], num_workers=1, buffer_size=int(sys.argv[1])
)
batches = epochs.next_epoch_itr()
print(*next(batches))
print(multiprocessing.active_children()[0].pid, flush=True)
sys.stdin.readline()
total = sum(1 for _ in range(500) if next(batches))
print(total, flush=True)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["2", "0"])
def test_a_worker_heeds_its_own_run_only(buffer: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, buffer],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "True\n", "SIGTERM would have ended a worker that was starting"
            worker = int(process.stdout.readline())
            for _ in range(3):
                os.kill(worker, signal.SIGTERM)
                time.sleep(0.1)
            assert _alive(worker)
            process.stdin.write("go on\n")
            process.stdin.flush()
            assert int(process.stdout.readline()) == 500
            assert process.wait(timeout=120) == 0  # by default it waits for its workers for ever
            assert not _alive(worker)
        finally:
            process.kill()
