"""Pretraining on two nodes, the grid of finetunings and the results, by one command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.queue import SCRIPTS, Queue
from tests.slurm.states import assert_same, attempts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chain(user: Callable[[], Queue], keys: list[str], task_data: Path) -> tuple[Queue, dict[str, str]]:
    """A chain that has ended, and the numbers of its jobs."""
    queue = user()
    resources = ("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0", "--all", "--cpus-per-task=1")
    finetuning = ("common.cpu=true", "run.precision=fp32", "dataset.num_workers=0", "optimization.max_update=4")
    done = queue.run(
        *(SCRIPTS / "submit_chain.sh", *resources, *keys, "--", f"sst2={task_data}", *finetuning),
        "lr_scheduler.warmup_updates=1",
        LINFORMER_LRS="1e-4 2e-4",
        LINFORMER_SEEDS="1",
    )
    assert done.returncode == 0, done.stderr
    jobs = dict(line.split() for line in done.stdout.splitlines())
    assert list(jobs) == ["pretrain", "finetune-sst2", "collect"]
    queue.wait(jobs["collect"])
    return queue, jobs


def test_two_nodes_train_what_one_process_does(chain: tuple[Queue, dict[str, str]], undisturbed: Path) -> None:
    queue, jobs = chain
    job = jobs["pretrain"]
    assert queue.show(job)["JobState"] == "COMPLETED", queue.output(job)
    run = queue.folder / "runs" / "tiny"
    assert_same(run / "checkpoint_last.pt", undisturbed)
    (attempt,) = attempts(run)
    assert attempt["status"] == "finished" and attempt["world_size"] == 2 and attempt["slurm_job"] == job
    assert "2 tasks, restart 0" in queue.log(job)
    assert {file.name for file in (queue.folder / "logs" / f"pretrain-{job}").iterdir()} == {"0.out", "1.out"}


def test_each_finetuning_of_the_grid_follows(chain: tuple[Queue, dict[str, str]]) -> None:
    queue, jobs = chain
    pretrained = queue.show(jobs["pretrain"])["EndTime"]
    for index in range(2):
        finetuning = queue.show(f"{jobs['finetune-sst2']}_{index}")
        assert finetuning["JobState"] == "COMPLETED", queue.output(jobs["finetune-sst2"])
        assert finetuning["StartTime"] >= pretrained
    finetuned = [attempts(run)[0] for run in (queue.folder / "runs" / "tiny").glob("sst2_*")]
    assert {attempt["status"] for attempt in finetuned} == {"finished"}
    assert {attempt["slurm_job"] for attempt in finetuned} == {f"{jobs['finetune-sst2']}_{index}" for index in range(2)}


def test_the_results_are_collected(chain: tuple[Queue, dict[str, str]]) -> None:
    queue, jobs = chain
    assert queue.show(jobs["collect"])["JobState"] == "COMPLETED", queue.output(jobs["collect"])
    rows = [json.loads(line) for line in (queue.folder / "results" / "runs.jsonl").read_text().splitlines()]
    found = {(row["task"], row["lr"], row["seed"]) for row in rows if row["stage"] == "finetuning"}
    assert found == {("sst2", lr, 1) for lr in (1e-4, 2e-4)}
    assert [row["name"] for row in rows if row["stage"] == "pretraining"] == ["tiny"], queue.log(jobs["collect"])
