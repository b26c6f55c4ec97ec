"""Validations without improvement, over the restarts of a run."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.patches import patience, replace


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module like fairseq's, and a trainer and loader without their other duties."""
    monkeypatch.setattr(patience, "_counted", {})
    program: Any = SimpleNamespace(state_dict=lambda trainer: {"extra_state": {}})
    program.load_checkpoint = lambda cfg, trainer: (trainer.extra_state, None)

    def should_stop_early(cfg: Any, loss: float | None) -> bool:
        here = program.should_stop_early
        here.num_runs = 0 if loss < getattr(here, "best", 99) else here.num_runs + 1
        here.best = min(loss, getattr(here, "best", 99))
        return bool(here.num_runs >= cfg.patience)

    program.should_stop_early = should_stop_early
    for _, name, make in patience.REPLACED:
        replace(program, name, make)
    return program


CFG = SimpleNamespace(patience=2, reset_meters=False)


def trainer(extra_state: Any, updates: int = 1) -> Any:
    return SimpleNamespace(extra_state=extra_state, get_num_updates=lambda: updates)


def test_a_restart_counts_on(program: Any) -> None:
    assert not program.should_stop_early(CFG, 5.0)
    assert not program.should_stop_early(CFG, 6.0)
    saved = program.state_dict(None)
    patience._counted.clear()
    vars(program.should_stop_early).update(best=0.0, num_runs=0)
    program.load_checkpoint(CFG, trainer(saved["extra_state"]))
    assert program.should_stop_early(CFG, 5.5)


def test_what_is_reset_is_not_restored(program: Any) -> None:
    saved = {patience.KEY: {"best": 1.0, "num_runs": 1}}
    program.load_checkpoint(SimpleNamespace(reset_meters=True), trainer(saved))
    program.load_checkpoint(CFG, trainer(saved, updates=0))  # the weights of another run
    assert not program.should_stop_early(CFG, 5.0)


def test_a_run_without_a_checkpoint_begins_to_count(program: Any) -> None:
    program.load_checkpoint(CFG, trainer(None, updates=0))
    assert not program.should_stop_early(CFG, 5.0)
    assert not program.should_stop_early(CFG, 6.0)
    program.load_checkpoint(CFG, trainer(None, updates=0))  # the next run in the same process
    assert not program.should_stop_early(CFG, 7.0)
    assert program.state_dict(None)["extra_state"][patience.KEY]["best"] == 7.0


@pytest.mark.slow
def test_runs_of_one_epoch_each_end_as_one_run(train: Callable[..., str], tiny_settings: Any, tmp_path: Path) -> None:
    settings = {
        **tiny_settings,
        "optimization.lr": [1e-12],  # no validation is better than the first
        "optimization.max_update": 10_000,
        "dataset.fixed_validation_seed": 1,
        "checkpoint.patience": 2,
        "checkpoint.no_epoch_checkpoints": True,
    }
    for epoch in (1, 2, 9):
        output = train("fairseq-train", {**settings, "optimization.max_epoch": epoch}, tmp_path)
    assert "early stop since valid performance hasn't improved for last 2 runs" in output
    assert read_checkpoint(tmp_path / "checkpoint_last.pt")["extra_state"]["train_iterator"]["epoch"] == 4
