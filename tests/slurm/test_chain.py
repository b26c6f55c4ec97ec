"""Pretraining, the grid of finetunings and the results, by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("fairseq")

from tests.slurm.queue import SCRIPTS, Queue
from tests.slurm.states import attempts

pytestmark = pytest.mark.slow

_CPU = ("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0", "--all", "--cpus-per-task=1")


def test_pretraining_finetunings_and_results(queue: Queue, keys: list[str], task_data: Path) -> None:
    finetuning = ["common.cpu=true", "run.precision=fp32", "dataset.num_workers=0", "optimization.max_update=4"]
    done = queue.run(
        *(SCRIPTS / "submit_chain.sh", *_CPU, *keys, "optimization.max_update=8", "--", f"sst2={task_data}"),
        *(*finetuning, "lr_scheduler.warmup_updates=1"),
        LINFORMER_LRS="1e-4 2e-4",
        LINFORMER_SEEDS="1 2",
    )
    assert done.returncode == 0, done.stderr
    jobs = dict(line.split() for line in done.stdout.splitlines())
    assert list(jobs) == ["pretrain", "finetune-sst2", "collect"]
    assert queue.wait(jobs["collect"])["JobState"] == "COMPLETED", queue.output()
    (pretraining,) = attempts(queue.folder / "runs" / "tiny")
    assert pretraining["status"] == "finished" and pretraining["world_size"] == 2
    for index in range(4):
        finetuning_job = queue.show(f"{jobs['finetune-sst2']}_{index}")
        assert finetuning_job["JobState"] == "COMPLETED", queue.output()
        assert finetuning_job["StartTime"] >= queue.show(jobs["pretrain"])["EndTime"]
    rows = [json.loads(line) for line in (queue.folder / "results" / "runs.jsonl").read_text().splitlines()]
    found = {(row["task"], row["lr"], row["seed"]) for row in rows if row["stage"] == "finetuning"}
    assert found == {("sst2", lr, seed) for lr in (1e-4, 2e-4) for seed in (1, 2)}
    assert len(rows) == 5


def test_what_is_missing_is_said_before_anything_is_queued(queue: Queue, keys: list[str], task_data: Path) -> None:
    chain = (SCRIPTS / "submit_chain.sh", *_CPU, *keys)
    for words, said in (
        (("task.data=absent", "--", f"sst2={task_data}"), "task.data: "),
        (("experiment=absent", "--", f"sst2={task_data}"), "absent"),
        (("--", "sst2=absent"), "absent: no such folder"),
        (("--", f"sst2={task_data}", "sst3=absent"), "sst3"),
    ):
        done = queue.run(*chain, *words)
        assert done.returncode == 1 and done.stderr.startswith("error: ") and said in done.stderr, done.stderr
        assert done.stdout == ""
    assert queue.run("squeue", "--noheader").stdout == ""
