"""Faults in real runs: a limit on file sizes, a loss that diverges, a process that dies, a damaged folder for two."""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq.checkpoints.folder import State, examine
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import damage
from tests.forked import Forked
from tests.messages import says

Settings = dict[str, Any]
Start = Callable[..., Forked]
Train = Callable[..., str]
Words = Callable[..., list[str]]

_SLOW_PLUGIN = """
import time
import linformer_fairseq.models
from fairseq.tasks.masked_lm import MaskedLMTask

_train_step = MaskedLMTask.train_step

def train_step(self, *args, **kwargs):
    time.sleep(0.2)
    return _train_step(self, *args, **kwargs)

MaskedLMTask.train_step = train_step
"""


@pytest.fixture
def settings(tiny_settings: Settings) -> Settings:
    return {
        **tiny_settings,
        "dataset.disable_validation": True,
        "checkpoint.save_interval_updates": 2,
        "checkpoint.no_epoch_checkpoints": True,
        "optimization.max_update": 4,
    }


@pytest.fixture
def slow_settings(settings: Settings, tmp_path: Path) -> Settings:
    """Five updates a second and no end, so that something can happen meanwhile."""
    plugin = tmp_path / "slow_plugin"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(_SLOW_PLUGIN)
    return {**settings, "common.user_dir": str(plugin), "optimization.max_update": 10000}


@pytest.fixture
def start_two(start_fairseq: Start, train_words: Words) -> Callable[[Settings, Path], list[Forked]]:
    """Two processes that train together on CPU."""

    def start(settings: Settings, save_dir: Path) -> list[Forked]:
        save_dir.mkdir(exist_ok=True)
        meeting = save_dir / "meeting"
        meeting.unlink(missing_ok=True)
        together = {
            **settings,
            "distributed_training.distributed_world_size": 2,
            "distributed_training.distributed_no_spawn": True,
            "distributed_training.distributed_backend": "gloo",
            "distributed_training.ddp_backend": "legacy_ddp",
            "distributed_training.distributed_init_method": f"file://{meeting}",
        }
        return [
            start_fairseq(
                "fairseq-train",
                *train_words("fairseq-train", {**together, "distributed_training.distributed_rank": rank}, save_dir),
                cwd=save_dir,
            )
            for rank in (0, 1)
        ]

    return start


def _updates(path: Path) -> int:
    return int(read_checkpoint(path)["optimizer_history"][-1]["num_updates"])


def _wait_for(path: Path, process: Forked) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


@pytest.mark.slow
def test_no_room_for_a_checkpoint(
    start_fairseq: Start, train_words: Words, train: Train, slow_settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    process = start_fairseq("fairseq-train", *train_words("fairseq-train", slow_settings, folder), cwd=folder)
    _wait_for(folder / "checkpoint_last.pt", process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 1

    last = folder / "checkpoint_last.pt"
    updates = _updates(last)
    assert says(output, ".pt", "cannot be saved", "File too large", "attempt 2")
    assert says(output, ": the checkpoint cannot be saved", "File too large", "EFBIG")
    assert says(output, "newest valid one", last, f"{updates} updates", "same command then resumes")
    assert output.count("Traceback") > 0 and "checkpoint_saving.SavingError: " in output.splitlines()[-1]
    assert not list(folder.glob("*.tmp"))
    assert {examine(path).state for path in folder.glob("*.pt")} == {State.SOUND}

    output = train("fairseq-train", {**slow_settings, "optimization.max_update": updates + 2}, folder)
    assert f"Loaded checkpoint {last} (epoch 1 @ {updates} updates)" in output
    assert _updates(last) == updates + 2


@pytest.mark.slow
def test_a_run_that_diverges(train: Train, settings: Settings, tmp_path: Path) -> None:
    diverging = {**settings, "optimization.lr": [1e30], "optimization.update_freq": [2]}
    output = train("fairseq-train", diverging, tmp_path, status=1)
    assert "update 2, process 0, micro-batch 1 of 2: loss " in output
    assert "update 2, process 0, micro-batch 2 of 2: loss " in output and ", ids [" in output
    assert "NotFiniteError: update 2: the " in output.splitlines()[-1]
    assert not (tmp_path / "checkpoint_last.pt").exists()


_ALONE = """
import os, signal, sys, time
import torch.distributed as dist
from linformer_fairseq.training.process_group import highest

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
highest(0)
if rank:
    os.kill(os.getpid(), signal.SIGKILL)
highest(0)
"""


_LEAVING = """
import sys
import torch.distributed as dist
from linformer_fairseq.training.process_group import highest, leave

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
assert highest(int(sys.argv[2])) == 1
leave()
print(dist.is_initialized(), highest(0))
"""


@pytest.mark.slow
def test_processes_that_stop_together_leave_no_group_behind(tmp_path: Path) -> None:
    """gloo's threads abort a process that ends while the other one does."""
    words = [sys.executable, "-c", _LEAVING, str(tmp_path / "meeting")]
    both = [subprocess.Popen([*words, rank], stdout=subprocess.PIPE, text=True) for rank in "01"]
    assert [process.communicate(timeout=300)[0] for process in both] == ["False 0\n"] * 2
    assert [process.returncode for process in both] == [0, 0]


@pytest.mark.slow
def test_a_process_that_is_gone_between_updates_is_named(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _ALONE, str(tmp_path / "meeting")]
    both = [
        subprocess.Popen([*words, rank], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in "01"
    ]
    output, _ = (process.communicate(timeout=300)[0] for process in both)
    assert [process.returncode for process in both] == [1, -signal.SIGKILL]
    assert says(output, "between updates", "process 0 of 2", "lost its connection", "killed")


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_other(
    start_two: Callable[[Settings, Path], list[Forked]], slow_settings: Settings, tmp_path: Path
) -> None:
    first, second = start_two(slow_settings, tmp_path / "run")
    _wait_for(tmp_path / "run" / "checkpoint_last.pt", first)
    second.send_signal(signal.SIGKILL)
    output = first.communicate(timeout=300)[0]
    assert second.wait() == -signal.SIGKILL and first.returncode == 1
    second.communicate()
    assert says(output, "process 0 of 2", "lost its connection", "killed")
    assert examine(tmp_path / "run" / "checkpoint_last.pt").usable


@pytest.mark.slow
def test_two_processes_and_damaged_checkpoints(
    start_two: Callable[[Settings, Path], list[Forked]], settings: Settings, tmp_path: Path
) -> None:
    def run(status: int) -> list[str]:
        processes = start_two(settings, folder)
        outputs = [process.communicate(timeout=300)[0] for process in processes]
        # gloo may abort a process that ends while the other one does, so that a failure is any status but 0
        failed = [process.returncode != 0 for process in processes]
        assert failed == [status != 0] * 2, outputs[0] + outputs[1]
        return outputs

    folder = tmp_path / "run"
    run(0)
    last = folder / "checkpoint_last.pt"
    assert _updates(last) == 4

    damage(last)
    settings["optimization.max_update"] = 6
    outputs = run(0)
    assert f"{last}: damaged" in outputs[0] and f"resuming from {folder}/checkpoint_1_4.pt" in outputs[0]
    assert _updates(last) == 6 and (folder / "checkpoint_last.pt.damaged").is_file()

    for path in folder.glob("checkpoint*.pt"):
        damage(path)
    for output in run(1):  # both say so, and none waits for the other
        assert f"CheckpointError: no valid checkpoint in {folder}" in output.splitlines()[-1]


@pytest.mark.slow
def test_going_on_with_one_process_instead_of_two(
    start_two: Callable[[Settings, Path], list[Forked]],
    train: Train,
    settings: Settings,
    tmp_path: Path,
) -> None:
    """With two batches an update in its place, and no dropout, that is the run of one process from the beginning."""
    settings |= {"model.dropout": 0.0, "model.attention_dropout": 0.0, "model.activation_dropout": 0.0}
    two, one = tmp_path / "two", tmp_path / "one"
    for process in start_two({**settings, "optimization.max_update": 2}, two):
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output
    alone = {**settings, "optimization.update_freq": [2]}
    output = train("fairseq-train", alone, two)
    assert says(output, "processes 2 -> 1", "update_freq", "[1] -> [2]")
    assert "\n  preserved: the batch size of an update, 16 sequences" in output
    train("fairseq-train", alone, one)
    found, expected = (read_checkpoint(folder / "checkpoint_last.pt") for folder in (two, one))
    assert found["extra_state"]["train_iterator"] == expected["extra_state"]["train_iterator"]
    assert all(torch.equal(found["model"][name], expected["model"][name]) for name in expected["model"])
