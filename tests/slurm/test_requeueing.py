"""When a job is requeued, by what its step ended with; a stand-in for Python shows it: nothing has to be trained."""

from __future__ import annotations

import pytest

from tests.slurm.queue import SCRIPTS, TWO_NODES, Queue

pytestmark = pytest.mark.slow


def _stub(queue: Queue, name: str, body: str) -> str:
    """A program for LINFORMER_PYTHON; it is called with ``-m linformer_fairseq.cli COMMAND KEY=VALUE...``."""
    path = queue.folder / name
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_what_is_requeued(queue: Queue) -> None:
    early = queue.submit(
        *(*TWO_NODES, SCRIPTS / "pretrain.sbatch"),
        LINFORMER_PYTHON=_stub(queue, "sleeps", "echo began; exec sleep 100"),
    )
    fails = _stub(queue, "fails", "((SLURM_PROCID)) || exec sleep 300; exit 1")  # the other task would wait for it
    failing = queue.submit(*TWO_NODES, SCRIPTS / "pretrain.sbatch", LINFORMER_PYTHON=fails)
    misses = """[[ ! -f missed_$SLURM_PROCID ]] || exit 0
trap '[[ ! -f missed_$SLURM_PROCID ]] || exit 85; touch missed_$SLURM_PROCID' USR1
touch listens; for ((i = 0; i < 900; i++)); do sleep 0.1; done"""
    missing = queue.submit(*TWO_NODES, SCRIPTS / "pretrain.sbatch", LINFORMER_PYTHON=_stub(queue, "misses", misses))
    queue.until((queue.folder / "listens").is_file, "not begun")
    queue.run("scancel", "--batch", "--signal=USR1", missing)
    endless = queue.submit(
        *(*TWO_NODES, SCRIPTS / "pretrain.sbatch"),
        # as of a run, the other tasks end with 0 before: srun would kill them, and report 143
        LINFORMER_PYTHON=_stub(queue, "stops", "((!SLURM_PROCID)) || exit 0; sleep 1; exit 85"),
        LINFORMER_MAX_REQUEUES="1",
    )
    output = queue.folder / "logs" / f"pretrain-{early}" / "0.out"
    for start in (1, 2, 3):  # it does not listen to signals yet, as a program that is still being loaded
        queue.until(lambda n=start: output.is_file() and output.read_text().count("began") == n, "not begun")  # type: ignore[misc]
        queue.run("scancel", "--batch", "--signal=USR1", early)
    assert queue.wait(early)["JobState"] == "FAILED" and queue.restarts(early) == 2
    assert "told to stop 3 times in a row before the run could save anything" in queue.log(early)
    assert queue.wait(failing)["JobState"] == "FAILED" and queue.restarts(failing) == 0
    assert queue.wait(missing)["JobState"] == "COMPLETED" and queue.restarts(missing) == 1, "told again"
    assert queue.wait(endless)["JobState"] == "FAILED" and queue.restarts(endless) == 1
    assert "has been restarted 1 times, the most that LINFORMER_MAX_REQUEUES allows" in queue.log(endless)


@pytest.mark.usefixtures("unannounced")
def test_a_job_whose_nodes_another_takes_is_requeued_before_it_can_save(queue: Queue) -> None:
    once = _stub(
        queue, "once", "[[ ! -f $1 ]] || exit 0; touch $1; exec sleep 100".replace("$1", "began_$SLURM_JOB_ID")
    )

    def submit(node: int) -> str:
        words = (f"--nodelist=127.0.0.{node}", "--nodes=1", SCRIPTS / "pretrain.sbatch")
        job = queue.submit(*TWO_NODES, *words, LINFORMER_PYTHON=once)
        queue.until((queue.folder / f"began_{job}").is_file, "not begun")
        return job

    preempted, told = submit(1), submit(2)
    queue.run("scancel", "--signal=TERM", told)
    queue.take("127.0.0.1")
    assert queue.wait(told)["JobState"] == "FAILED" and queue.restarts(told) == 0, "somebody wanted its end"
    assert queue.wait(preempted)["JobState"] == "COMPLETED", queue.output(preempted)
    assert queue.restarts(preempted) == 1


def test_an_array_has_the_grid_and_its_jobs_are_requeued_alone(queue: Queue) -> None:
    waits = """echo "${@:3}"
[[ ! -f stopped_$SLURM_ARRAY_TASK_ID ]] || exit 0
trap 'touch stopped_$SLURM_ARRAY_TASK_ID; exit 85' USR1
touch ready_$SLURM_ARRAY_TASK_ID
while [[ ! -f enough ]]; do sleep 0.1; done"""
    submit = ("--gpus-per-node=0", "--cpus-per-task=1", SCRIPTS / "finetune_array.sbatch", "task=sst2")
    grid = {"LINFORMER_LRS": "1e-4 2e-4", "LINFORMER_SEEDS": "7 8", "LINFORMER_PYTHON": _stub(queue, "waits", waits)}
    array = queue.submit("--array=0-3", *submit, **grid)
    outside = queue.submit("--array=4", *submit, **grid)
    queue.until(lambda: len([*queue.folder.glob("ready_*")]) == 4, "the array did not start")
    # to SLURM the last one has the number of the whole array
    assert queue.show(f"{array}_3")["JobId"] == array
    queue.run("scancel", "--batch", "--signal=USR1", f"{array}_3")
    assert queue.wait(f"{array}_3")["JobState"] == "COMPLETED" and queue.restarts(f"{array}_3") == 1
    (queue.folder / "enough").touch()
    for index in range(3):
        assert queue.wait(f"{array}_{index}")["JobState"] == "COMPLETED" and queue.restarts(f"{array}_{index}") == 0
    for index, keys in enumerate(f"lr={lr} common.seed={seed}" for lr in ("1e-4", "2e-4") for seed in (7, 8)):
        words = f"finetune run_config=srun task=sst2 {keys}"
        printed = (queue.folder / "logs" / f"finetune-{array}_{index}" / "0.out").read_text().splitlines()
        assert [line for line in printed if "finetune" in line] == [words] * (2 if index == 3 else 1)
    assert queue.wait(f"{outside}_4")["JobState"] == "FAILED"
    said = "array index 4: 2 learning rates x 2 seeds make 4 jobs; submit with --array=0-3"
    assert said in queue.log(f"{outside}_4")


def test_a_job_whose_tasks_were_not_started_fails(queue: Queue) -> None:
    """srun ends with 0 if a node does not have the current folder, and cannot open the output of its tasks."""
    says = _stub(queue, "says", "echo ran")
    script = SCRIPTS / "pretrain.sbatch"
    lost = queue.submit(*TWO_NODES, script, LINFORMER_PYTHON=says, SLURM_WORKING_DIR="/absent")  # srun's --chdir
    odd = queue.submit(*TWO_NODES, r"--job-name=a/%j\b c", script, LINFORMER_PYTHON=says)
    assert queue.wait(lost)["JobState"] == "FAILED", queue.output()
    assert "error: the tasks were not started" in queue.log(lost)
    assert queue.wait(odd)["JobState"] == "COMPLETED", queue.output()
    assert (queue.folder / "logs" / f"a__j_b c-{odd}" / "1.out").read_text() == "ran\n"
    assert (queue.folder / "logs" / f"a__j_b c-{odd}.out").is_file()


def test_the_repository_is_found_or_asked_for(queue: Queue) -> None:
    says = _stub(queue, "says", 'echo "ran $PWD"')
    elsewhere = queue.folder / "copy.sbatch"
    elsewhere.write_text((SCRIPTS / "pretrain.sbatch").read_text())
    lost = queue.submit(*TWO_NODES, elsewhere, LINFORMER_PYTHON=says)
    named = queue.submit(*TWO_NODES, elsewhere, LINFORMER_PYTHON=says, LINFORMER_ROOT=str(SCRIPTS.parents[1]))
    absent = queue.submit(*TWO_NODES, SCRIPTS / "pretrain.sbatch", LINFORMER_PYTHON="/no/python")
    mine = queue.submit(*TWO_NODES, "--output=mine.out", SCRIPTS / "pretrain.sbatch", LINFORMER_PYTHON=says)
    assert queue.wait(lost)["JobState"] == "FAILED"
    said = "the submitted script: expected the repository of linformer-fairseq; name it in LINFORMER_ROOT"
    assert said in queue.log(lost)
    assert queue.wait(named)["JobState"] == "COMPLETED", queue.output(named)
    assert (queue.folder / "logs" / f"pretrain-{named}" / "1.out").read_text() == f"ran {queue.folder}\n"
    assert queue.wait(absent)["JobState"] == "FAILED"
    assert "/no/python: no such program on " in queue.log(absent)
    assert queue.wait(mine)["JobState"] == "COMPLETED"
    assert "2 tasks" in (queue.folder / "mine.out").read_text()
    assert not (queue.folder / "logs" / f"pretrain-{mine}.out").exists()


def test_a_failed_pretraining_cancels_the_finetunings(queue: Queue) -> None:
    body = """case "$*" in
*check_chain*) printf '%s\\n' runs/x/checkpoint_best.pt runs/x ;;
*results*) echo "${@:3}" >collected ;;
*) exit 1 ;;
esac"""
    done = queue.run(
        *(SCRIPTS / "submit_chain.sh", "--nodes", 1, "--tasks-per-node", 1, "--gpus-per-node", 0, "experiment=x"),
        *("--all", "--cpus-per-task=1", "--", "sst2=data"),
        LINFORMER_PYTHON=_stub(queue, "fails", body),
    )
    assert done.returncode == 0, done.stderr
    jobs = dict(line.split() for line in done.stdout.splitlines())
    assert queue.wait(jobs["collect"])["JobState"] == "COMPLETED", queue.output()
    assert queue.show(jobs["pretrain"])["JobState"] == "FAILED"
    assert queue.show(jobs["finetune-sst2"])["JobState"] == "CANCELLED"
    assert (queue.folder / "collected").read_text() == "results collect runs/x\n"
