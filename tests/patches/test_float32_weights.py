"""The float32 weights of a run in half precision are in its checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.trainer import Trainer

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.patches.float32_weights import KEY
from tests.checkpoint_files import same

HALF = [{"common.bf16": True}, {"common.fp16": True, "common.fp16_no_flatten_grads": True}]
MEMORY_EFFICIENT = {"common.bf16": True, "common.memory_efficient_bf16": True}


def ids(settings: dict[str, Any]) -> str:
    return "-".join(key.partition(".")[2] for key in settings)


@pytest.mark.parametrize("settings", HALF, ids=ids)
def test_a_trainer_gets_them_back(make_trainer: Callable[..., Trainer], tmp_path: Path, settings: Any) -> None:
    trainer = make_trainer(tmp_path, settings)
    copies = trainer.optimizer.fp32_params
    with torch.no_grad():
        for number, copy in enumerate(copies):
            copy.add_(1e-5 * number)
    trainer.optimizer._sync_fp32_params_to_fp16()
    assert any(not torch.equal(copy, copy.to(trainer.optimizer.fp16_params[0].dtype)) for copy in copies)
    trainer.consolidate_optimizer()
    path = tmp_path / "checkpoint_last.pt"
    trainer.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
    assert same(read_checkpoint(path)["last_optimizer_state"][KEY], list(copies))
    assert path.stat().st_size < 1.1 * 4 * sum(p.numel() for p in copies) + 50_000  # each weight once

    other = make_trainer(tmp_path, settings)
    other.load_checkpoint(str(path))
    assert same(list(other.optimizer.fp32_params), list(copies))
    assert same(other.model.state_dict(), trainer.model.state_dict())


def test_weights_that_were_replaced_in_the_file_are_kept(
    make_trainer: Callable[..., Trainer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by fairseq's averages over checkpoints, which leave the optimizer's state as it is."""
    trainer = make_trainer(tmp_path, HALF[0])
    before = [copy.clone() for copy in trainer.optimizer.fp32_params]
    state = trainer.optimizer.state_dict() | {KEY: [copy * (1 + 2**-12) for copy in before]}  # rounds to the same
    first = trainer.optimizer.fp16_params[0]
    with torch.no_grad():
        first.add_(1)
        trainer.optimizer.fp32_params[0].copy_(first)
    trainer.optimizer.load_state_dict(state)
    assert same(list(trainer.optimizer.fp32_params), [first.float(), *state[KEY][1:]])
    assert f"1 of {len(before)} weights" in caplog.text


def test_a_checkpoint_without_them_can_be_loaded(make_trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    """That of plain fairseq, of an earlier version, or of a run in another precision."""
    trainer = make_trainer(tmp_path, MEMORY_EFFICIENT)
    trainer.consolidate_optimizer()
    assert KEY not in trainer.state_dict()["last_optimizer_state"]
    optimizer = make_trainer(tmp_path, HALF[0]).optimizer
    before = [copy.clone() for copy in optimizer.fp32_params]
    state = optimizer.state_dict()
    assert KEY not in state
    optimizer.load_state_dict(state)
    optimizer.load_state_dict({**state, KEY: [torch.zeros(3)]})
    assert same(list(optimizer.fp32_params), before)


def test_parts_of_one_tensor(make_trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    """On a GPU, fp16 has all copies in one tensor; it is made by hand, because fairseq asks CUDA for its device."""
    optimizer: FP16Optimizer = make_trainer(tmp_path, HALF[0]).optimizer
    saved = [torch.full_like(copy, number + 2**-12) for number, copy in enumerate(optimizer.fp32_params, 1)]
    for weight, copy in zip(optimizer.fp16_params, saved, strict=True):
        weight.data.copy_(copy)
    state = {**optimizer.state_dict(), KEY: saved}
    flat = torch.cat([copy.detach().flatten() for copy in optimizer.fp32_params])
    optimizer.fp32_params = {0: torch.nn.Parameter(flat)}
    optimizer.load_state_dict(state)
    assert torch.equal(optimizer.fp32_params[0], torch.cat([copy.flatten() for copy in saved]))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*HALF, {**HALF[0], "ema.store_ema": True, "ema.ema_fp32": True}], ids=ids)
def test_a_resumed_run_equals_an_uninterrupted_one(
    train: Callable[..., str], tiny_settings: Any, tmp_path: Path, settings: Any
) -> None:
    for stops in ([6], [3, 6]):
        for updates in stops:
            words = {
                **tiny_settings,
                **settings,
                "dataset.disable_validation": True,
                "optimization.max_update": updates,
            }
            train("fairseq-train", words, tmp_path / str(len(stops)))
    once, twice = (read_checkpoint(tmp_path / name / "checkpoint_last.pt") for name in "12")
    for part in ("model", "last_optimizer_state"):
        assert same(once[part], twice[part]), part
    assert same(once["extra_state"].get("ema"), twice["extra_state"].get("ema"))
