"""A checkpoint that does not fit: the last line says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.patches.restore_errors import _with_reason


def _fails_as_fairseq_does(self: object, filename: str) -> None:
    try:
        raise ValueError("k is 128 in the checkpoint, 64 in the model")
    except Exception:
        raise Exception(  # noqa: B904 (as fairseq does)
            f"Cannot load model parameters from checkpoint {filename}; please ensure that the architectures match."
        )


def test_reason_is_said_last() -> None:
    with pytest.raises(CheckpointError, match=r"x\.pt: .* k is 128 in the checkpoint, 64 in the model$") as error:
        _with_reason(_fails_as_fairseq_does)(object(), "x.pt")
    assert isinstance(error.value.__cause__, ValueError)


def test_other_errors_pass() -> None:
    def fails(self: object, filename: str) -> None:
        raise AssertionError("something else")

    with pytest.raises(AssertionError, match="something else"):
        _with_reason(fails)(object(), "x.pt")


def test_another_precision_is_said(make_trainer: Callable[..., Any], tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, {"common.bf16": True})
    trainer.consolidate_optimizer()
    path = tmp_path / "checkpoint_last.pt"
    trainer.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
    with pytest.raises(CheckpointError, match="last.pt: .* optimizer, .* precision: FP16Optimizer, not FairseqAdam; "):
        make_trainer(tmp_path, {}).load_checkpoint(str(path))


def test_fp16_after_bf16_and_the_other_way_round(
    make_trainer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are fairseq's FP16Optimizer, with its parameters in one tensor on a GPU, or in one each."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # where that tensor is made
    trainers = [make_trainer(tmp_path, {f"common.{precision}": True}) for precision in ("fp16", "bf16")]
    for saved, resumed in (trainers, reversed(trainers)):
        saved.consolidate_optimizer()
        path = tmp_path / "checkpoint_last.pt"
        saved.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
        with pytest.raises(
            CheckpointError, match="last.pt: .* optimizer is that of other parameters .*fp16.*reset_optimizer"
        ):
            resumed.load_checkpoint(str(path))
