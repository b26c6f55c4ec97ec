"""Gradients in mixed precision, with a loss scale as on a GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq.trainer import Trainer

from linformer_fairseq.patches import amp_unscaling


@pytest.mark.parametrize("optimizer", ["adam", "fused_adamw"])
def test_a_step_does_not_depend_on_the_loss_scale(
    make_trainer: Callable[..., Trainer], tmp_path: Path, optimizer: str
) -> None:
    def step(scale: float) -> torch.Tensor:
        settings = {"common.amp": True, "optimizer._name": optimizer, "optimizer.adam_eps": 1e-8}
        trainer = make_trainer(tmp_path, settings)
        amp = trainer.optimizer
        amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        trainer.set_lr = lambda _: None
        amp.set_lr(0.1)
        [first, *_] = amp.fp32_optimizer.params
        before = first.detach().clone()
        amp.backward(1e-6 * first.sum())
        amp.clip_grad_norm(0.0)
        amp.step()
        return (first.detach() - before).abs().max()

    scaled = step(128.0)
    assert scaled > 0.04  # with a gradient 128 times as small, eps would make it a thirtieth of this
    torch.testing.assert_close(scaled, step(1.0))


def test_the_loss_scale_begins_and_grows_as_its_options_say(
    make_trainer: Callable[..., Trainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # without a GPU, a scaler for one is off
    monkeypatch.setattr(amp_unscaling, "GradScaler", lambda _, **options: torch.amp.GradScaler("cpu", **options))
    settings = {"common.amp": True, "common.fp16_init_scale": 2, "common.amp_init_scale": 4}
    scaler = make_trainer(tmp_path, {**settings, "common.amp_scale_window": 7}).optimizer._grad_scaler
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (4.0, 7)
    default = torch.amp.GradScaler("cpu").get_growth_interval()
    assert make_trainer(tmp_path, settings).optimizer._grad_scaler.get_growth_interval() == default
