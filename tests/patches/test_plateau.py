"""The learning rate on a plateau, over the restarts of a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.checkpoints.reading import read_checkpoint

SETTINGS = {
    "lr_scheduler._name": "reduce_lr_on_plateau",
    "lr_scheduler.warmup_updates": 0,
    "lr_scheduler.lr_threshold": 1.0,  # no validation counts as better than the first
    "dataset.fixed_validation_seed": 1,
    "optimization.max_update": 10_000,
}


def rates(output: str) -> dict[str, str]:
    """The learning rate at the end of each epoch, by its number."""
    return dict(re.findall(r"\| train \| epoch (\d+) \|.*\| lr (\S+) \|", output))


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0, 1])
def test_runs_of_one_epoch_each_lower_it_as_one_run_does(
    train: Callable[..., str], tiny_settings: Any, tmp_path: Path, patience: int
) -> None:
    settings = {**tiny_settings, **SETTINGS, "lr_scheduler.lr_patience": patience}
    del settings["lr_scheduler.total_num_update"]
    once = rates(train("fairseq-train", {**settings, "optimization.max_epoch": 6}, tmp_path / "once"))
    assert len(set(once.values())) > 2
    twice = {}
    for epoch in range(1, 7):
        twice |= rates(train("fairseq-train", {**settings, "optimization.max_epoch": epoch}, tmp_path / "twice"))
    assert twice == once
    states = [read_checkpoint(tmp_path / name / "checkpoint_last.pt") for name in ("once", "twice")]
    first, second = (state["optimizer_history"][-1]["lr_scheduler_state"] for state in states)
    assert (first["best"], first["num_bad_epochs"]) == (second["best"], second["num_bad_epochs"])
