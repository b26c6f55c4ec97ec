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


def _submit(queue: Queue, *keys: str, nodes: int = 2, sacct: str = _SACCT) -> subprocess.Popen[str]:
    """The command that submits a pretraining and waits for it."""
    programs = queue.folder / "bin"
    programs.mkdir()
    (programs / "sacct").write_text(sacct)
    (programs / "sacct").chmod(0o755)
    path = f"PATH={programs}{os.pathsep}{queue.environment()['PATH']}"
    linformer = (sys.executable, "-m", "linformer_fairseq.cli", "pretrain")
    return queue.start(
        "env", path, *linformer, "run_config=slurm", f"run.slurm.nodes={nodes}", *_CPU, "run.slurm.time=30", *keys
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


@pytest.mark.usefixtures("unannounced")
def test_a_run_whose_nodes_another_job_takes_goes_on_after_it(queue: Queue, keys: list[str]) -> None:
    """submitit takes no notice of SIGTERM."""
    queue.pace.touch()
    submitting = _submit(queue, *keys, nodes=1)
    run = queue.folder / "runs" / "tiny"
    queue.until(lambda: updates_logged(run) > 4 or submitting.poll() is not None, "training did not begin")
    job = attempts(run)[0]["slurm_job"]
    queue.take(queue.show(job)["NodeList"])
    queue.until(lambda: queue.restarts(job) or queue.over(job), "not requeued")
    queue.pace.unlink()
    output = queue.end_of(submitting)
    assert submitting.returncode == 0, output + queue.output()
    first, last = attempts(run)
    assert first["error"].startswith("SIGTERM after update") and last["status"] == "finished"
    assert last["updates_at_start"] == first["updates_at_end"] > 0


@pytest.mark.parametrize("sacct", [_SACCT, "#!/bin/sh\nexit 1\n"], ids=["with_accounts", "without"])
def test_a_run_that_fails_is_said_to(queue: Queue, keys: list[str], sacct: str) -> None:
    submitting = _submit(queue, *keys, "common.cpu=false", nodes=1, sacct=sacct)
    output = queue.end_of(submitting)
    assert submitting.returncode == 1, output
    (log,) = queue.folder.glob("logs/submitit/*/*_0_log.out")
    assert queue.wait(log.parent.name)["JobState"] == "FAILED"
    assert "error: run_config=slurm: this run is for GPUs, but torch sees none" in output and str(log) in output
    assert "Traceback" not in output
    assert ("keeps no accounts" in output) == (sacct != _SACCT)


def test_a_run_without_restarts_left_is_stopped(queue: Queue, keys: list[str]) -> None:
    queue.pace.touch()
    # of a limit below ten minutes, submitit takes every signal for the one at the limit
    submitting = _submit(queue, *keys, "run.slurm.time=9", "run.slurm.max_num_timeout=0", nodes=1)
    run = queue.folder / "runs" / "tiny"
    queue.until(lambda: updates_logged(run) > 4 or submitting.poll() is not None, "training did not begin")
    queue.run("scancel", "--signal=USR2", attempts(run)[0]["slurm_job"])
    output = queue.end_of(submitting)
    assert submitting.returncode == 1, output
    assert "Job not requeued because: timed-out too many times. The same command resumes the run." in output
    assert "Traceback" not in output + queue.output()
    (attempt,) = attempts(run)
    assert attempt["status"] == "stopped" and attempt["updates_at_end"] > 4


def test_what_sbatch_refuses_is_said_in_a_line(queue: Queue, keys: list[str]) -> None:
    submitting = _submit(queue, *keys, "run.slurm.partition=absent", nodes=1)
    output = queue.end_of(submitting)
    assert submitting.returncode == 1 and "error: run_config=slurm: sbatch: error: " in output, output
    assert "partition" in output and "Traceback" not in output
