"""A signal between updates: before the first one the run ends, later it goes on to its next checkpoint."""

from __future__ import annotations

import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from linformer_fairseq.patches import replace, stopping
from linformer_fairseq.training import signals
from linformer_fairseq.training.resuming import RESETS
from linformer_fairseq.training.run_report import PROGRESS, Progress
from linformer_fairseq.training.signals import Stopped


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """fairseq's training program, whose epochs do nothing, in a process that has just received SIGTERM."""
    monkeypatch.setattr(signals, "listen", lambda: None)
    monkeypatch.setattr(signals, "hand_on", lambda number: None)
    monkeypatch.setattr(signals, "_received", [signal.SIGTERM])
    for name, value in vars(Progress()).items():
        monkeypatch.setattr(PROGRESS, name, value)
    program: Any = SimpleNamespace(train=lambda *_: ([None], False), validate_and_save=lambda *_: ([None], False))
    program.load_checkpoint = lambda cfg, trainer: ({}, SimpleNamespace(next_epoch_idx=4))
    for _, name, make in stopping.REPLACED:
        replace(program, name, make)
    return program


def _trainer(updates: int) -> Any:
    model = SimpleNamespace(parameters=list)
    return SimpleNamespace(cfg=CFG, get_num_updates=lambda: updates, model=model, is_data_parallel_master=True)


CFG = SimpleNamespace(optimization=SimpleNamespace(max_update=100, max_epoch=3))


def test_the_first_signal_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_received", [])
    assert signals.received() == 0
    monkeypatch.setattr(signals, "_received", [signal.SIGUSR1, signal.SIGTERM])
    assert signals.received() == signal.SIGUSR1


def test_a_run_that_has_made_no_update_ends(program: Any) -> None:
    with pytest.raises(Stopped) as stopped:
        program.train(CFG, _trainer(7), None, None)
    assert (stopped.value.code, stopped.value.updates, stopped.value.signal) == (143, 7, "SIGTERM")


def test_between_epochs_nothing_is_lost(program: Any) -> None:
    """With ``checkpoint.save_interval`` above 1, the epoch before may not have been saved."""
    PROGRESS.first = 0
    assert program.train(CFG, _trainer(7), None, None) == ([None], False)


def test_a_run_that_has_just_ended_its_last_epoch_ends_as_usual(program: Any) -> None:
    ended = SimpleNamespace(next_epoch_idx=4)
    assert program.validate_and_save(CFG, _trainer(7), None, ended) == ([None], False)


def test_a_run_whose_epochs_are_done_is_finished(program: Any) -> None:
    program.load_checkpoint(None, _trainer(7))
    assert PROGRESS.trained and PROGRESS.last == 7


def test_a_run_without_updates_is_not(program: Any) -> None:
    program.load_checkpoint(None, _trainer(0))
    assert not PROGRESS.trained
    assert not Progress(first=7, last=7).trained and Progress(first=7, last=8).trained


def test_a_finished_run_makes_no_update(program: Any) -> None:
    assert program.train(CFG, _trainer(100), None, None) == ([None], True)
    assert PROGRESS.complete and PROGRESS.last == 100


@pytest.mark.parametrize(
    ("first", "forbidden", "status"),
    [
        *((True, None, 85), (False, None, 0), (True, "no_save", 1), (False, "no_save", 0)),
        (True, "no_last_checkpoints", 1),
    ],
)
def test_a_run_that_is_stopped_saves_a_checkpoint(
    program: Any, monkeypatch: pytest.MonkeyPatch, first: bool, forbidden: str | None, status: int
) -> None:
    """If nothing is saved, it is not to be requeued: it would begin again from an earlier point, each time."""
    saved: list[Any] = []
    handed_on: list[int] = []
    monkeypatch.setattr(stopping.signals, "hand_on", handed_on.append)
    monkeypatch.setattr(stopping.checkpoint_utils, "save_checkpoint", lambda *given: saved.append(given))
    checkpoint = SimpleNamespace(no_save=False, no_last_checkpoints=False, save_dir="run", restore_file="last.pt")
    vars(checkpoint).update(dict.fromkeys(RESETS, False) | ({forbidden: True} if forbidden else {}))
    trainer, config = _trainer(7), SimpleNamespace(**vars(CFG), checkpoint=checkpoint)
    trainer.is_data_parallel_master = first
    with pytest.raises(Stopped) as stopped:
        program.validate_and_save(config, trainer, None, epoch := SimpleNamespace(next_epoch_idx=2))
    assert (stopped.value.code, stopped.value.updates) == (status, 7)
    assert saved == [(checkpoint, trainer, epoch, None)] and len(handed_on) == (not forbidden)


def test_a_run_that_has_just_finished_ends_as_usual(program: Any) -> None:
    made = {name: make for _, name, make in stopping.REPLACED}
    program.validate_and_save = made["validate_and_save"](lambda *_: ([None], True))
    assert program.validate_and_save(CFG, _trainer(7), None, SimpleNamespace(next_epoch_idx=2)) == ([None], True)


@pytest.mark.parametrize(
    "error", [RuntimeError("no more"), subprocess.CalledProcessError(1, "scontrol"), OSError("none")]
)
def test_why_a_job_was_not_requeued(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(number: int, frame: object) -> None:
        raise error

    def ends(number: int, frame: object) -> None:
        raise SystemExit(255)

    before = {number: signal.getsignal(number) for number in signals.STOPPING}
    try:
        monkeypatch.setattr(signals, "_before", {signal.SIGUSR2: fails})
        assert signals.hand_on(signal.SIGUSR2) is error
        assert {signal.getsignal(number) for number in signals.STOPPING} == {signal.SIG_IGN}, "one more changes nothing"
        monkeypatch.setattr(signals, "_before", {signal.SIGUSR2: ends})
        assert signals.hand_on(signal.SIGUSR2) is None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
