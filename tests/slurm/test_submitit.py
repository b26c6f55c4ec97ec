"""run_config=slurm: Hydra's submitit launcher submits the run, and submitit requeues it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.queue import Queue
from tests.slurm.states import assert_same, attempts, updates_logged

pytestmark = pytest.mark.slow

# What submitit asks for; the SLURM of the tests keeps no accounts.
_SACCT = """#!/bin/sh
echo "JobID|State|NodeList"
squeue --noheader --states=all --format="%i|%T|%N"
"""
_CPU = ("run.slurm.gpus_per_node=0", "run.slurm.tasks_per_node=1", "run.slurm.cpus_per_task=1")


def _submit(queue: Queue, *keys: str, nodes: int = 2) -> subprocess.Popen[str]:
    """The command that submits a pretraining and waits for it."""
    programs = queue.folder / "bin"
    programs.mkdir()
    (programs / "sacct").write_text(_SACCT)
    (programs / "sacct").chmod(0o755)
    path = f"PATH={programs}{os.pathsep}{queue.environment()['PATH']}"
    linformer = (sys.executable, "-m", "linformer_fairseq.cli", "pretrain")
    return queue.start(
        "env", path, *linformer, *keys, "run_config=slurm", f"run.slurm.nodes={nodes}", *_CPU, "run.slurm.time=30"
    )


def test_a_run_is_submitted_and_goes_on_after_its_signal(queue: Queue, keys: list[str], undisturbed: Path) -> None:
    queue.pace.touch()
    submitting = _submit(queue, *keys)
    run = queue.folder / "runs" / "tiny"
    queue.until(lambda: updates_logged(run) > 4 or submitting.poll() is not None, "training did not begin")
    job = attempts(run)[0]["slurm_job"]
    assert queue.show(job)["JobName"] == "pretraining" and queue.show(job)["TimeLimit"] == "00:30:00"
    queue.run("scancel", "--signal=USR2", job)
    queue.until(lambda: queue.restarts(job) or queue.over(job), "not requeued")
    queue.pace.unlink()
    output = queue.end_of(submitting)
    assert submitting.returncode == 0, output + queue.output()
    assert [attempt["status"] for attempt in attempts(run)] == ["stopped", "finished"]
    assert attempts(run)[1]["updates_at_start"] > 0
    assert_same(run / "checkpoint_last.pt", undisturbed)
    logs = queue.folder / "logs" / "submitit" / job
    assert {file.name for file in logs.glob("*.out")} == {f"{job}_0_log.out", f"{job}_1_log.out"}
    submitted = (logs / f"{job}_submission.sh").read_text()
    assert "--signal=USR2@120" in submitted and "SLURM_KILL_BAD_EXIT=1" in submitted


def test_a_run_that_fails_is_said_to(queue: Queue, keys: list[str]) -> None:
    submitting = _submit(queue, *keys, "common.cpu=false", nodes=1)
    output = queue.end_of(submitting)
    assert submitting.returncode not in (0, 85), output
    (log,) = queue.folder.glob("logs/submitit/*/*_0_log.out")
    assert queue.show(log.parent.name)["JobState"] == "FAILED"
    assert "this run is for GPUs, but torch sees none" in output + queue.output()
