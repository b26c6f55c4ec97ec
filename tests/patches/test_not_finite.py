"""A loss or a gradient that is not finite ends the run, with its update and its examples in the log."""

import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.trainer import Trainer

from linformer_fairseq.patches.not_finite import NotFiniteError

MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def trainer(make_trainer: MakeTrainer, tmp_path: Path) -> Trainer:
    return make_trainer(tmp_path)


@pytest.fixture
def updates(trainer: Trainer) -> Iterator[list[dict[str, Any]]]:
    """The micro-batches of one update after another, two each."""
    batches = trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=False)
    return iter(list(zip(batches, batches, strict=False)))


def _spoil(trainer: Trainer, when: Callable[[dict[str, Any]], bool], how: Callable[[Any], Any]) -> None:
    """Change the criterion's output for some batches."""
    forward = trainer.criterion.forward

    def spoiled(model: Any, sample: dict[str, Any], **more: Any) -> Any:
        loss, size, log = forward(model, sample, **more)
        return how((loss, size, log)) if when(sample) else (loss, size, log)

    trainer.criterion.forward = spoiled


def _nan(output: Any) -> Any:
    loss, size, log = output
    return loss * math.nan, size, {**log, "loss": log["loss"] * math.nan}


def test_finite_updates_are_as_ever(trainer: Trainer, updates: Any, caplog: pytest.LogCaptureFixture) -> None:
    held = set(vars(trainer))
    for number in (1, 2, 3):
        assert math.isfinite(trainer.train_step(next(updates))["loss"])
        assert trainer.get_num_updates() == number
    assert "not finite" not in caplog.text
    assert not trainer.criterion._forward_hooks
    assert not [name for name in set(vars(trainer)) - held if "linformer" in name]  # no batch is kept


def test_nan_loss(trainer: Trainer, updates: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fairseq.trainer")  # programs tested before may have made fairseq quiet
    trainer.train_step(next(updates))
    good, bad = next(updates)
    _spoil(trainer, lambda sample: torch.equal(sample["id"], bad["id"]), _nan)
    with pytest.raises(NotFiniteError, match="^update 2: the loss is not finite on process 0") as caught:
        trainer.train_step([good, bad])
    assert "clip_norm" in str(caught.value)
    assert f"update 2, process 0, micro-batch 2 of 2: loss nan (summed), ids {bad['id'].tolist()}" in caplog.text
    line = next(record.message for record in caplog.records if "micro-batch 1 of 2" in record.message)
    assert "loss nan" not in line and str(good["id"].tolist()) in line
    assert (tmp_path / "crash.pt").is_file()  # as fairseq has it; the examples are named before it is written
    messages = [record.message for record in caplog.records]
    assert messages.index(f"Saving checkpoint to {tmp_path}/crash.pt") > messages.index(line)
    assert sum("micro-batch" in message for message in messages) == 2
    assert not trainer.criterion._forward_hooks


def test_gradient_alone(trainer: Trainer, updates: Any, caplog: pytest.LogCaptureFixture) -> None:
    samples = next(updates)
    parameter = next(trainer.model.parameters())
    parameter.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(NotFiniteError, match="^update 1: the gradient is not finite"):
        trainer.train_step(samples)
    for number, sample in enumerate(samples, start=1):
        assert f"micro-batch {number} of 2" in caplog.text and str(sample["id"].tolist()) in caplog.text


def test_loss_alone(trainer: Trainer, updates: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An infinite constant has no gradient: fairseq would go on."""
    _spoil(
        trainer, lambda _: True, lambda out: (out[0] + math.inf, out[1], {**out[2], "loss": out[2]["loss"] + math.inf})
    )
    with pytest.raises(NotFiniteError, match="^update 1: the loss is not finite"):
        trainer.train_step(next(updates))
    assert "loss inf" in caplog.text


def test_an_update_without_masked_tokens_changes_nothing(trainer: Trainer, updates: Any) -> None:
    """Few short paragraphs may have none; fairseq's mean of the loss is then 0/0."""
    samples = next(updates)
    for sample in samples:
        sample["target"].fill_(trainer.task.source_dictionary.pad())
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    assert math.isnan(trainer.train_step(samples)["loss"]) and trainer.get_num_updates() == 1
    assert all(map(torch.equal, before, trainer.model.parameters()))
    assert math.isfinite(trainer.train_step(next(updates))["loss"])


def test_fairseqs_own_search_may_fail(trainer: Trainer, updates: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(trainer, lambda _: True, _nan)

    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trainer, "save_checkpoint", full_disk)
    with pytest.raises(NotFiniteError, match="^update 1: the loss is not finite"):
        trainer.train_step(next(updates))


def test_other_errors_stay_what_they_are(trainer: Trainer, updates: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> Any:
        raise KeyError("other")

    _spoil(trainer, lambda _: True, fail)
    with pytest.raises(KeyError, match="other"):
        trainer.train_step(next(updates))
    assert "not finite" not in caplog.text


@pytest.mark.parametrize("finite", [True, False])
def test_overflow_in_fp16(
    trainer: Trainer, updates: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, finite: bool
) -> None:
    """A scale that is too large is mended by fairseq; a loss that is not finite is not mended by any scale."""
    if not finite:
        _spoil(trainer, lambda _: True, _nan)
    trainer.optimizer.scaler = type("Scaler", (), {"loss_scale": 64.0})
    trainer.cfg.common.fp16 = True  # from here on; the optimizer stays that of fp32

    def overflow(_: float) -> None:
        raise OverflowError("setting loss scale to: 64.0")

    monkeypatch.setattr(trainer, "clip_grad_norm", overflow)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    if finite:
        assert trainer.train_step(next(updates)) is None
        assert trainer.get_num_updates() == 0
    else:
        with pytest.raises(NotFiniteError, match="^update 1: the loss is not finite"):
            trainer.train_step(next(updates))
        assert "loss nan" in caplog.text


@pytest.mark.parametrize("finite", [True, False])
def test_overflow_with_amp(
    make_trainer: MakeTrainer, tmp_path: Path, caplog: pytest.LogCaptureFixture, finite: bool
) -> None:
    """fairseq gives up on a batch after some retries, and goes on with the next one."""
    trainer = make_trainer(tmp_path, {"common.amp": True})
    trainer.optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=64.0)  # else it is off on a CPU
    batches = trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=False)
    samples = [next(batches)]
    if finite:
        hook = next(trainer.model.parameters()).register_hook(lambda gradient: gradient * math.inf)
        assert trainer.train_step(samples) is None and trainer.get_num_updates() == 0
        assert trainer.optimizer.scaler.get_scale() == 64.0 / 2**3
        hook.remove()
        assert math.isfinite(trainer.train_step(samples)["loss"]) and trainer.get_num_updates() == 1
        return
    _spoil(trainer, lambda _: True, _nan)
    with pytest.raises(NotFiniteError, match="^update 1: the loss is not finite"):
        trainer.train_step(samples)
    assert "micro-batch 1 of 1: loss nan" in caplog.text
