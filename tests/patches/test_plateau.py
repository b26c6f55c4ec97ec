"""The learning rate on a plateau, over the restarts of a run."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.patches import plateau, replace

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


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module like fairseq's, and a trainer and loader without their other duties."""
    monkeypatch.setattr(plateau, "_validated", {})
    program: Any = SimpleNamespace(validate_and_save=lambda cfg, trainer: ([4.5], False))
    program.state_dict = lambda trainer: {"extra_state": {}}
    program.load_checkpoint = lambda cfg, trainer: (trainer.extra_state, SimpleNamespace(epoch=3))
    for owner, name, make in plateau.REPLACED:
        if owner is not ReduceLROnPlateauLRSchedule:
            replace(program, name, make)
    return program


def shown(
    program: Any, extra_state: dict[str, Any], iterations: int, updates: int = 7, reset: bool = False
) -> list[tuple[int, float]]:
    """The epoch and the loss that the scheduler sees when a run resumes from so far in an epoch."""
    extra_state = extra_state | {"train_iterator": {"epoch": 3, "iterations_in_epoch": iterations}}
    trainer: Any = SimpleNamespace(extra_state=extra_state, get_num_updates=lambda: updates, lr_step=Mock())
    trainer.lr_scheduler = Mock(spec=ReduceLROnPlateauLRSchedule)
    program.load_checkpoint(SimpleNamespace(reset_lr_scheduler=reset), trainer)
    return [call.args for call in trainer.lr_step.call_args_list]


def test_a_resumed_run_shows_the_loss_at_the_end_of_an_epoch_only(program: Any) -> None:
    state = {plateau.KEY: 4.5}
    assert shown(program, state, iterations=0) == [(3, 4.5)]
    assert shown(program, state, iterations=5) == []
    assert shown(program, state, iterations=0, updates=0) == [], "a finetuning starts from its parameters only"
    assert shown(program, state, iterations=0, reset=True) == []


@pytest.mark.parametrize(
    ("state", "loss"),
    [({plateau.KEY: 4.5, "val_loss": None}, 4.5), ({plateau.KEY: 4.5, "val_loss": 3.0}, 4.5), ({"val_loss": 3.0}, 3.0)],
)
def test_a_resumed_run_shows_the_loss_of_its_last_validation(program: Any, state: dict[str, Any], loss: float) -> None:
    assert shown(program, state, iterations=0) == [(3, loss)]


def test_the_loss_of_a_validation_is_saved_until_the_next_update(program: Any) -> None:
    before, after = (Mock(**{"get_num_updates.return_value": updates}) for updates in (7, 8))
    assert plateau.KEY not in program.state_dict(before)["extra_state"]
    program.validate_and_save(None, before)
    assert program.state_dict(before)["extra_state"][plateau.KEY] == 4.5
    assert plateau.KEY not in program.state_dict(after)["extra_state"]
    shown(program, {}, iterations=5)  # another run of the same process
    assert plateau.KEY not in program.state_dict(before)["extra_state"]


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
