"""One update by fairseq-train and one by fairseq-hydra-train are the same update."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forked import ENVIRONMENT

MODEL = {"model.encoder_normalize_before": True, "model.sharing": "key_value", "model.projected_dim": 6}


@pytest.mark.slow
def test_loss_and_gradient_of_the_first_update_are_equal(
    tiny_settings: dict[str, Any],
    train_words: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    settings = {**tiny_settings, **MODEL, "optimization.max_update": 1, "common.log_interval": 1}
    states, losses = [], []
    for program in ("fairseq-train", "fairseq-hydra-train"):
        save_dir = tmp_path / program
        command = [Path(sys.executable).parent / program, *train_words(program, settings, save_dir)]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        output = done.stdout + done.stderr
        states.append(torch.load(save_dir / "checkpoint_last.pt", weights_only=False))
        # The first loss that is printed is training's: validation comes after the only update.
        losses.append(float(re.search(r"\bloss (\d+\.\d+)", output)[1]))
    assert losses[0] == losses[1] > 1
    left, right = states
    assert left["model"].keys() == right["model"].keys()
    for name, parameter in left["model"].items():
        assert torch.equal(parameter, right["model"][name]), name
    # After one update Adam's first moment is a tenth of the gradient, its second a fiftieth of its square.
    moments = [state["last_optimizer_state"]["state"] for state in states]
    assert moments[0].keys() == moments[1].keys() and moments[0]
    for number, moment in moments[0].items():
        assert torch.equal(moment["exp_avg"], moments[1][number]["exp_avg"])
        assert torch.equal(moment["exp_avg_sq"], moments[1][number]["exp_avg_sq"])
    assert any(moment["exp_avg"].abs().max() > 0 for moment in moments[0].values())
