"""Launches that cannot train what was asked for are refused with a status that is not 0, and not tried again."""

from __future__ import annotations

import sys

import pytest

from tests.slurm.queue import Queue

pytestmark = pytest.mark.slow

_LINFORMER = (sys.executable, "-m", "linformer_fairseq.cli", "pretrain")


def test_wrong_launches_are_refused(queue: Queue, keys: list[str]) -> None:
    """Beside each other: most of the time is Python's start."""
    step = ("srun", "--nodes=2", "--ntasks=2", "--kill-on-bad-exit=1")
    copies = queue.start(*step, *_LINFORMER, *keys, "run_config=cpu")
    one_of_two = 'test "$SLURM_PROCID" = 0 || exec sleep 200; exec "$0" "$@"'
    alone = queue.start(
        *step, "bash", "-c", one_of_two, *_LINFORMER, *keys, "run_config=srun", "run.join_timeout=5", "run.name=alone"
    )
    no_data = queue.pretrain(["--nodes=1"], [*keys, "task.data=absent", "run.name=no_data"])

    output = queue.end_of(copies)
    assert copies.returncode not in (0, 85), output  # 1, or that of the other process, which SLURM ends then
    assert "started 2 processes, but the config is for 1" in output
    output = queue.end_of(alone)
    assert alone.returncode not in (0, 85), output
    assert "not all processes met" in output and "within 5 s (run.join_timeout)" in output
    job = queue.wait(no_data)
    assert job["JobState"] == "FAILED" and job["Restarts"] == "0"
    assert "absent: no such folder" in queue.output(no_data)
    assert not list(queue.folder.glob("runs/**/*.pt")), "nothing was trained"
