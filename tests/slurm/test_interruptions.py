"""Pretraining by scripts/slurm/pretrain.sbatch on a real SLURM, interrupted in every way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.conftest import UPDATES
from tests.slurm.queue import Queue
from tests.slurm.states import assert_same, attempts, updates_logged

pytestmark = pytest.mark.slow

# How a run is interrupted, and what its job's log says of it.
_SAVED = "==> the run was stopped and has saved a checkpoint; the job is requeued and goes on from there"
INTERRUPTIONS = {
    "time_limit": _SAVED,
    "requeued": "srun: forcing job termination",
    "node_down": "srun: error: Node failure on 127.0.0.4",
    "preempted": _SAVED,
}


@pytest.fixture(scope="module")
def interrupted(user: Callable[[], Queue], keys: list[str]) -> tuple[Queue, dict[str, str]]:
    """Four jobs beside each other, for most of the time is waiting; each was requeued and may end now."""
    queue = user()
    jobs: dict[str, str] = {}

    def submit(name: str, *options: str) -> None:
        jobs[name] = queue.pretrain(options, [*keys, f"run.name={name}"])

    def until_begun(name: str) -> None:  # the first checkpoint is that of the first epoch, four updates
        queue.until(lambda: updates_logged(queue.folder / "runs" / name) > 4, f"{name} did not begin")

    queue.pace.touch()
    # Two nodes where it matters: one of them fails, or both processes have to save. Most of the work is Python's start.
    submit("time_limit", "--nodes=1", "--nodelist=127.0.0.1", "--signal=B:USR1@60")
    submit("requeued", "--nodes=1", "--nodelist=127.0.0.2")
    submit("node_down", "--nodelist=127.0.0.[3-4]")
    submit("preempted", "--nodelist=127.0.0.[5-6]")
    for name in jobs:
        until_begun(name)
    # The limit comes near only now: on a slow machine a job could meet it before its first update. SLURM looks every
    # half minute, and ahead: the signal comes 60 to 90 seconds before the end, which is 95 to 155 from now.
    minutes = (queue.seconds(jobs["time_limit"]) + 95) // 60 + 1
    queue.run("scontrol", "update", f"jobid={jobs['time_limit']}", f"timelimit={minutes}")
    queue.pace.write_text("preempted")  # from now on its first process takes longer to save than SLURM waits (KillWait)
    queue.run("scontrol", "requeue", jobs["requeued"])
    queue.run("scontrol", "update", "nodename=127.0.0.4", "state=down", "reason=test")
    queue.take("127.0.0.[5-6]")
    for job in jobs.values():
        queue.until(lambda job=job: queue.restarts(job) or queue.over(job), "not requeued")  # type: ignore[misc]
    queue.run("scontrol", "update", f"jobid={jobs['time_limit']}", "timelimit=30")  # once is enough
    queue.pace.unlink()
    return queue, jobs


@pytest.mark.parametrize("name", INTERRUPTIONS)
def test_an_interrupted_run_ends_as_if_nothing_had_happened(
    interrupted: tuple[Queue, dict[str, str]], undisturbed: Path, name: str
) -> None:
    queue, jobs = interrupted
    assert queue.wait(jobs[name])["JobState"] == "COMPLETED", queue.output(jobs[name])
    assert queue.restarts(jobs[name])
    run = queue.folder / "runs" / name
    assert_same(run / "checkpoint_last.pt", undisturbed)
    first, *_, last = attempts(run)
    assert (first["updates_at_end"] or 0) < UPDATES, "interrupted in the middle"
    assert last["status"] == "finished"
    log = queue.log(jobs[name])
    assert INTERRUPTIONS[name] in log, log
    tasks = (queue.folder / "logs" / f"pretrain-{jobs[name]}" / "0.out").read_text()
    assert "Loaded checkpoint" in tasks, "it went on, and did not begin anew"
    if INTERRUPTIONS[name] == _SAVED:
        assert first["status"] == "stopped" and first["error"].startswith("SIGUSR1 after update")
