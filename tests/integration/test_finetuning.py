"""Sentence prediction from a pretrained checkpoint: classification, regression, and heads that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

import linformer_fairseq.tasks  # noqa: F401 (registers the task, and the model)
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import same

Train = Callable[..., str]
Settings = dict[str, Any]


@pytest.fixture(scope="module")
def pretrained(train: Train, tiny_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrained")
    train("fairseq-train", {**tiny_settings, "optimization.max_update": 1}, folder)
    return folder / "checkpoint_last.pt"


@pytest.fixture
def settings(finetuning_settings: Settings, pretrained: Path) -> Settings:
    """Two updates from the pretrained model."""
    return {**finetuning_settings, "optimization.max_update": 2, "checkpoint.finetune_from_model": str(pretrained)}


@pytest.mark.slow
def test_classification_keeps_its_head_for_the_next_run(
    train: Train, settings: Settings, pretrained: Path, tmp_path: Path
) -> None:
    output = train("fairseq-hydra-train", settings, tmp_path / "first")
    assert "accuracy" in output
    first = read_checkpoint(tmp_path / "first" / "checkpoint_last.pt")["model"]
    start = read_checkpoint(pretrained)["model"]
    projection = "encoder.sentence_encoder.proj_k.weight"
    assert first[projection].shape == start[projection].shape and not torch.equal(first[projection], start[projection])
    head = "classification_heads.sentence_classification_head.out_proj.weight"
    assert first[head].shape == (3, 64)

    # With the same task the head is part of the model; under another name it is kept only if asked for.
    for keep in (True, False):
        again = {
            **settings,
            "checkpoint.finetune_from_model": str(tmp_path / "first" / "checkpoint_last.pt"),
            "criterion.classification_head_name": "other",
            "model.load_checkpoint_heads": keep,
            "optimization.max_update": 1,
        }
        train("fairseq-train", again, tmp_path / str(keep))
        second = read_checkpoint(tmp_path / str(keep) / "checkpoint_last.pt")["model"]
        assert "classification_heads.other.dense.weight" in second
        assert (head in second) == keep
        if keep:
            assert torch.equal(second[head], first[head]), "it is loaded, and not trained by another task"


@pytest.mark.slow
def test_regression_on_two_numbers(train: Train, settings: Settings, pretrained: Path, tmp_path: Path) -> None:
    settings |= {
        "task.num_classes": 2,
        "criterion.regression_target": True,
        "optimization.max_update": 30,
        "optimization.lr": [0.01],
        "common.log_interval": 1,
    }
    output = train("fairseq-train", settings, tmp_path)
    assert "accuracy" not in output, "regression has none"
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_last.pt")])
    task.load_dataset("train")
    sample = task.dataset("train").collater([task.dataset("train")[i] for i in range(0, 120, 8)])
    logits, _ = model.eval()(
        **sample["net_input"], features_only=True, classification_head_name="sentence_classification_head"
    )
    assert logits.shape == sample["target"].shape == (15, 2)
    # The targets are i/n and -i/n: the mean squared error is a third for zeros, a twelfth for 0.5 and -0.5.
    assert torch.nn.functional.mse_loss(logits, sample["target"]) < 0.2


@pytest.mark.slow
def test_a_checkpoint_with_another_n_is_refused_with_both_numbers(
    train: Train, settings: Settings, pretrained: Path, tmp_path: Path
) -> None:
    output = train("fairseq-train", {**settings, "task.max_positions": 48}, tmp_path, status=1)
    last = output.strip().splitlines()[-1]
    assert "checkpoint_last.pt" in last
    assert "max_positions (n) = 32" in last and "max_positions (n) = 48" in last


@pytest.mark.slow
def test_by_length_and_stopped_twice_is_as_if_never_stopped(
    train: Train, settings: Settings, pretrained: Path, tmp_path: Path
) -> None:
    settings |= {
        "task._name": "bucketed_sentence_prediction",
        "task.length_window": 24,
        "dataset.num_workers": 2,
        "optimization.max_epoch": 3,
        "optimization.max_update": 45,
    }
    train("fairseq-hydra-train", settings, tmp_path / "whole")
    expected = read_checkpoint(tmp_path / "whole" / "checkpoint_last.pt")
    # in the middle of epoch 1, in the middle of epoch 2 by the other entry point, then to the end
    for stop, program in ((4, "fairseq-train"), (20, "fairseq-hydra-train"), (45, "fairseq-train")):
        train(program, {**settings, "optimization.max_update": stop}, tmp_path / "parts")
        found = read_checkpoint(tmp_path / "parts" / "checkpoint_last.pt")
        assert found["optimizer_history"][-1]["num_updates"] == stop
    for part in ("model", "last_optimizer_state"):
        assert same(found[part], expected[part]), part
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "parts" / "checkpoint_last.pt")])
    assert task.cfg.length_window == 24 and same(model.state_dict(), expected["model"])
