"""What stops a run of several processes is found before they start: they would end with torchrun's traceback."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from linformer_fairseq import cli
from linformer_fairseq.launch import application, complete, compose
from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.launch.run_folder import RunFolder, read_record
from linformer_fairseq.launch.train import _facts
from linformer_fairseq.training.run_report import Progress
from tests.checkpoint_files import save

NAME = "linformer_base_n32_k8_layerwise_s1"


class Command:
    """A run of two processes that must not be started, and its folder."""

    def __init__(self, words: Sequence[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.words, self.folder, self._capsys = words, folder, capsys

    def begin(self) -> RunFolder:
        """Write the record of an attempt that has begun."""
        config = with_defaults(complete(compose("pretraining", self.words[1:])))
        hardware = {"processor": "", "accelerator": None, "hosts": []}
        attempt = {"updates_at_start": 0, "world_size": 2, "hardware": hardware}
        folder = RunFolder(self.folder)
        folder.begin(config, _facts(config, self.words[1:]), attempt)
        folder.release()
        return folder

    def end(self, updates: int | None, status: str = "finished") -> None:
        """Write the record of an attempt that has ended."""
        self.begin().end(status, Progress(first=0, last=updates))

    def said(self, *more: str, status: int = 1) -> str:
        assert cli.main([*self.words, *more]) == status
        return self._capsys.readouterr().err


@pytest.fixture
def command(
    pretraining: Callable[[int], Sequence[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(application, "_child", None)
    monkeypatch.setattr(application, "reset_logging", lambda: None)
    words = [*pretraining(3), "distributed_training.distributed_world_size=2"]
    return Command(words, tmp_path / "runs" / NAME, capsys)


@pytest.mark.slow
def test_a_folder_in_which_they_cannot_train(command: Command) -> None:
    command.folder.parent.mkdir()
    command.folder.touch()
    assert f"{command.folder}: " in command.said()
    command.folder.unlink()
    command.folder.mkdir()
    (command.folder / "run.json").write_text("{")
    assert f"{command.folder / 'run.json'}: " in command.said()


def test_a_folder_that_another_process_holds(command: Command) -> None:
    held = RunFolder(command.folder)
    assert f"{command.folder}: another process" in command.said()
    del held


def test_the_processes_that_are_started_find_the_folder_free(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: exceptions that were caught may keep objects until garbage is collected."""
    kept: list[RunFolder] = []
    made = RunFolder.__init__

    def make(self: RunFolder, path: Path) -> None:
        made(self, path)
        kept.append(self)

    def child(*_: object, torchrun: bool) -> tuple[int, int]:
        RunFolder(command.folder)
        return 0, 0

    monkeypatch.setattr(RunFolder, "__init__", make)
    monkeypatch.setattr(application, "_child", child)
    command.said(status=0)
    assert len(kept) == 2


@pytest.mark.slow
def test_an_attempt_that_did_not_record_its_end_has_failed(command: Command) -> None:
    command.begin()
    command.end(2, "stopped")
    command.begin()
    attempts = (read_record(command.folder) or {})["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["failed", "stopped", "running"]
    assert [bool(attempt["error"]) for attempt in attempts] == [True, False, False]


@pytest.mark.slow
def test_a_folder_with_another_run(command: Command) -> None:
    command.end(3)
    for more in ([], ["--dry-run"]):
        assert "lr 0.0005, but this one has 0.1" in command.said("optimization.lr=[0.1]", *more)


@pytest.mark.slow
def test_a_run_that_is_finished(command: Command) -> None:
    command.end(3)
    assert "missing" in command.said()
    save(command.folder / "checkpoint_last.pt", 3)
    assert command.said(status=0) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("child", "record", "status"),
    [
        ((0, 0), ("finished", 3), 0),
        ((1, 0), ("failed", 2), 1),
        ((1, signal.SIGTERM), ("stopped", 2), 85),
        ((1, 0), ("stopped", 2), 85),  # the signal went to the processes only
        ((1, signal.SIGTERM), ("stopped", None), 143),  # before the first update: nothing is saved
        ((1, signal.SIGUSR1), None, 128 + signal.SIGUSR1),  # before they joined
        ((1, signal.SIGINT), ("stopped", 2), 130),
    ],
)
def test_the_status_says_whether_the_command_resumes_it(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    child: tuple[int, int],
    record: tuple[str, int | None] | None,
    status: int,
) -> None:
    """Whatever torchrun's is. An attempt that was stopped earlier does not count."""
    command.end(1, "stopped")
    save(command.folder / "checkpoint_last.pt", 1)

    def run(*_: object, torchrun: bool) -> tuple[int, int]:
        assert torchrun
        if record is not None:
            command.end(record[1], record[0])
        return child

    monkeypatch.setattr(application, "_child", run)
    command.said(status=status)
    assert (f"the same command resumes from {command.folder}" in caplog.text) == (status == 85)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["no_save", "no_last_checkpoints"])
def test_a_run_that_saves_nothing_cannot_be_resumed(
    command: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    started: list[bool] = []

    def run(*_: object, torchrun: bool) -> tuple[int, int]:
        started.append(torchrun)
        command.end(2, "stopped")
        return 1, signal.SIGTERM

    monkeypatch.setattr(application, "_child", run)
    command.said(f"checkpoint.{option}=true", status=1)
    assert started == [True]
    assert "the same command resumes" not in caplog.text
