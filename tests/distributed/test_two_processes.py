"""Two processes at batch B are one process at batch B that takes two batches an update."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import same
from tests.forked import Forked

Settings = dict[str, Any]

# What fairseq needs to train in several processes on CPU. legacy_ddp: its pytorch_ddp passes a GPU's number.
_TWO_PROCESSES = {
    "distributed_training.distributed_world_size": 2,
    "distributed_training.distributed_no_spawn": True,
    "distributed_training.distributed_backend": "gloo",
    "distributed_training.ddp_backend": "legacy_ddp",
}
_NO_DROPOUT = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "model.activation_dropout": 0.0}


# All that a model may have beside the paper's: each has numbers of its own that both processes must agree on.
_OTHER_ROWS = {
    "sharing": "layerwise",
    "projection": "convolution",
    "projection_init": "window_means",
    "projection_step": 0.5,
    "row_weights": "affine",
    "short_inputs": "stretch",
    "kernel_strides": 2,
    "attention_start": "neighbours",
}


@pytest.fixture
def train_in_two(
    train_words: Callable[..., list[str]], start_fairseq: Callable[..., Forked]
) -> Callable[[Settings, Path], None]:
    def run(settings: Settings, save_dir: Path) -> None:
        save_dir.mkdir(exist_ok=True)
        meeting = save_dir / "meeting"  # a file to meet at: no port that someone else may take
        meeting.unlink(missing_ok=True)
        together = {**settings, **_TWO_PROCESSES, "distributed_training.distributed_init_method": f"file://{meeting}"}
        processes = [
            start_fairseq(
                "fairseq-train",
                *train_words("fairseq-train", {**together, "distributed_training.distributed_rank": rank}, save_dir),
                cwd=save_dir,
            )
            for rank in (0, 1)
        ]
        outputs = [process.communicate(timeout=300)[0] for process in processes]
        for process, output in zip(processes, outputs, strict=True):
            assert process.returncode == 0, output[-4000:]

    return run


def _parameters(save_dir: Path, name: str = "checkpoint_last.pt", updates: int = 4) -> dict[str, torch.Tensor]:
    checkpoint = read_checkpoint(save_dir / name)
    assert checkpoint["optimizer_history"][-1]["num_updates"] == updates
    return dict(checkpoint["model"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"sharing": "none"}, {"sharing": "layerwise"}, _OTHER_ROWS], ids=["none", "layerwise", "other rows"]
)
def test_two_processes_equal_two_batches_an_update(
    train: Callable[..., str],
    train_in_two: Callable[[Settings, Path], None],
    tiny_settings: Settings,
    tmp_path: Path,
    options: dict[str, Any],
) -> None:
    settings = {
        **tiny_settings,
        **_NO_DROPOUT,
        **{f"model.{name}": value for name, value in options.items()},
        "dataset.batch_size": 4,
        "dataset.disable_validation": True,
        "checkpoint.save_interval_updates": 1,
        "optimization.max_update": 4,
    }
    train("fairseq-train", {**settings, "optimization.update_freq": [2]}, tmp_path / "one")
    if options["sharing"] == "layerwise":  # these are also stopped, and resumed by both processes
        train_in_two({**settings, "optimization.max_update": 2}, tmp_path / "two")
    train_in_two(settings, tmp_path / "two")

    one, two = _parameters(tmp_path / "one"), _parameters(tmp_path / "two")
    first = _parameters(tmp_path / "two", "checkpoint_1_1.pt", updates=1)
    assert one.keys() == two.keys() == first.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")
    models, _ = checkpoint_utils.load_model_ensemble([str(tmp_path / "two" / "checkpoint_last.pt")])
    trainable = [name for name, _ in models[0].named_parameters()]
    assert [name for name in trainable if torch.equal(first[name], two[name])] == []


@pytest.mark.slow
def test_an_epoch_whose_last_update_has_fewer_batches_for_one_process(
    train: Callable[..., str],
    train_in_two: Callable[[Settings, Path], None],
    tiny_settings: Settings,
    tmp_path: Path,
) -> None:
    settings = {
        **tiny_settings,
        **_NO_DROPOUT,
        "dataset.disable_validation": True,
        "optimization.max_update": 0,
        "optimization.max_epoch": 1,
    }
    # of nine batches, the second update has three: two for one process, one for the other
    train("fairseq-train", {**settings, "optimization.update_freq": [6]}, tmp_path / "one")
    train_in_two({**settings, "optimization.update_freq": [3]}, tmp_path / "two")
    one, two = (read_checkpoint(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    assert one["optimizer_history"][-1]["num_updates"] == two["optimizer_history"][-1]["num_updates"] == 2
    for name, weight in one["model"].items():
        torch.testing.assert_close(two["model"][name], weight, rtol=1e-5, atol=2e-6)


@pytest.mark.slow
def test_two_of_torchrun_equal_two_batches_an_update(
    train: Callable[..., str],
    train_words: Callable[..., list[str]],
    tiny_settings: Settings,
    tmp_path: Path,
) -> None:
    settings = {**tiny_settings, **_NO_DROPOUT, "optimization.max_update": 2, "dataset.disable_validation": True}
    train("fairseq-train", {**settings, "optimization.update_freq": [2]}, tmp_path / "one")
    parallel = {key: value for key, value in _TWO_PROCESSES.items() if key.endswith("_backend")}
    words = train_words("fairseq-train", {**settings, **parallel}, tmp_path / "two")
    command = [*(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"), "-m"]
    done = subprocess.run([*command, "fairseq_cli.train", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    one, two = (read_checkpoint(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    assert same(one["model"], two["model"])
