"""Pretraining by scripts/slurm/pretrain.sbatch on a real SLURM, undisturbed and interrupted in every way.

The interrupted jobs run beside each other: most of the time is waiting.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fairseq")

from tests.slurm.conftest import UPDATES
from tests.slurm.queue import Queue
from tests.slurm.states import assert_same, attempts, updates_logged

pytestmark = pytest.mark.slow


def _named(keys: list[str], name: str) -> list[str]:
    return [*keys, f"run.name={name}"]


def test_two_nodes_train_what_one_process_does(queue: Queue, keys: list[str], undisturbed: Path) -> None:
    job = queue.pretrain([], keys)
    assert queue.wait(job)["JobState"] == "COMPLETED", queue.output()
    run = queue.folder / "runs" / "tiny"
    assert_same(run / "checkpoint_last.pt", undisturbed)
    (attempt,) = attempts(run)
    assert attempt["status"] == "finished" and attempt["world_size"] == 2 and attempt["slurm_job"] == job
    assert "2 tasks, restart 0" in queue.log(job)
    assert {file.name for file in (queue.folder / "logs" / f"pretrain-{job}").iterdir()} == {"0.out", "1.out"}


def test_interrupted_runs_end_as_if_nothing_had_happened(queue: Queue, keys: list[str], undisturbed: Path) -> None:
    queue.pace.touch()
    here, there = "--nodelist=127.0.0.[1-2]", "--nodelist=127.0.0.[3-4]"
    jobs = {
        # SLURM looks every half minute: the signal comes 20 to 50 seconds after the start
        "time_limit": queue.pretrain([here, "--time=1", "--signal=B:USR1@10"], _named(keys, "time_limit")),
        "requeue": queue.pretrain([here], _named(keys, "requeue")),
        "node_down": queue.pretrain([there], _named(keys, "node_down")),
    }
    runs = {name: queue.folder / "runs" / name for name in jobs}
    for name in ("requeue", "node_down"):
        queue.until(lambda name=name: updates_logged(runs[name]) >= 2, f"{name} did not begin")  # type: ignore[misc]
    assert queue.run("scontrol", "requeue", jobs["requeue"]).returncode == 0
    down = ["scontrol", "update", "nodename=127.0.0.4", "state=down", "reason=test"]
    assert queue.run(*down).returncode == 0
    for job in jobs.values():
        queue.until(lambda job=job: queue.restarts(job), f"job {job} was not requeued")  # type: ignore[misc]
    queue.pace.unlink()
    for name, job in jobs.items():
        assert queue.wait(job)["JobState"] == "COMPLETED", queue.output()
        assert_same(runs[name] / "checkpoint_last.pt", undisturbed)
        first, *_, last = attempts(runs[name])
        assert 0 < first["updates_at_end"] < UPDATES, f"{name}: interrupted in the middle"
        assert last["updates_at_start"] > 0 and last["status"] == "finished", f"{name}: went on"
    stopped = attempts(runs["time_limit"])[0]
    assert stopped["status"] == "stopped" and stopped["error"].startswith("SIGUSR1 after update")
    assert "the run was stopped and has saved a checkpoint; the job is requeued" in queue.log(jobs["time_limit"])
