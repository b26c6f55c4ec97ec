"""The checkpoint that a run begins with."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.start import allow_resets, began_before_requeue, begin_with, check_start, resume_own
from linformer_fairseq.training.resuming import RESETS
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.models import write_checkpoint


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model.pt``, the folder ``bin`` of its data, and one of others."""
    folder = tmp_path_factory.mktemp("start")
    data = make_sentencepiece(folder / "bin")
    write_checkpoint(data, folder / "model.pt", task="masked_lm")
    (folder / "other").mkdir()
    first, second, *rest = (data / "dict.txt").read_text().splitlines(keepends=True)
    (folder / "other" / "dict.txt").write_text("".join([second, first, *rest]))
    return folder


def config(data: Path, start: str | None = None, restored: str = "checkpoint_last.pt") -> DictConfig:
    checkpoint = {"finetune_from_model": start, "restore_file": restored, "continue_once": None}
    return OmegaConf.create({"checkpoint": checkpoint, "pretrained": None, "task": {"data": str(data)}})


@pytest.mark.parametrize("option", ["finetune_from_model", "restore_file", "continue_once"])
def test_a_file_that_is_there_and_fits_becomes_absolute(
    option: str, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    given = config(work / "bin")
    check_start(given)
    assert given == config(work / "bin")
    given.checkpoint[option] = "model.pt"
    check_start(given)
    assert given.checkpoint[option] == str(work / "model.pt")
    given.task.data = str(work / "other")
    with pytest.raises(UserError, match="was trained with .*, which differs from "):
        check_start(given)
    given.checkpoint[option] = "absent.pt"
    with pytest.raises(UserError, match=f"^checkpoint.{option}=absent.pt: no such file"):
        check_start(given)
    given.checkpoint[option] = "s3://bucket/model.pt"  # fairseq's business
    check_start(given)


def test_one_of_two_is_not_ignored(work: Path) -> None:
    both = config(work / "bin", str(work / "model.pt"), str(work / "model.pt"))
    with pytest.raises(UserError, match="restore_file=.*checkpoint.finetune_from_model=.*: give one of them"):
        check_start(both)
    both.pretrained = "linformer-small"
    with pytest.raises(UserError, match="restore_file=.*pretrained=.*: give one of them"):
        check_start(both)
    both.checkpoint.update(restore_file="checkpoint_last.pt", continue_once=str(work / "model.pt"))
    with pytest.raises(UserError, match="^checkpoint.continue_once=.*, but pretrained=linformer-small: give one of th"):
        check_start(both)
    given = config(work / "bin", "/other.pt")
    with pytest.raises(UserError, match="finetune_from_model=/other.pt, but pretrained=.*model.pt: give one of them"):
        begin_with(given, work / "model.pt")
    given = config(work / "bin")
    for _ in range(2):
        begin_with(given, work / "model.pt")
        assert given.checkpoint.finetune_from_model == str(work / "model.pt")


def test_a_finetuning_may_begin_anew(tmp_path: Path) -> None:
    """fairseq refuses to reset anything in a run with finetune_from_model, even if that file is not loaded."""

    def start(reset: bool) -> tuple[str | None, bool]:
        options = {"save_dir": str(tmp_path), "finetune_from_model": "/model.pt", "checkpoint_suffix": ""}
        resets = {"reset_optimizer": reset, "reset_lr_scheduler": reset, "reset_meters": reset}
        given = OmegaConf.create({"checkpoint": {**options, **resets, "reset_dataloader": False}})
        allow_resets(given)
        return given.checkpoint.finetune_from_model, given.checkpoint.reset_optimizer

    assert start(True) == start(False) == ("/model.pt", False)
    (tmp_path / "checkpoint_1_500.pt").touch()  # recovery makes it the last one
    assert start(False) == ("/model.pt", False)
    assert start(True) == (None, True)


def test_a_run_resumes_from_its_own_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def start(restored: str) -> tuple[str, bool]:
        options = {"save_dir": "run", "restore_file": restored, "checkpoint_suffix": "", "reset_meters": True}
        options |= {"reset_optimizer": False, "reset_lr_scheduler": True, "reset_dataloader": False}
        given = OmegaConf.create({"checkpoint": options})
        resume_own(given)
        return given.checkpoint.restore_file, given.checkpoint.reset_meters

    other = str(tmp_path / "other.pt")
    earlier = str(tmp_path / "run" / "checkpoint_1_500.pt")  # going back within the run is the user's choice
    assert start(other) == (other, True)
    (tmp_path / "run").mkdir()
    for own in ("checkpoint_1_500.pt", "checkpoint_last.pt"):  # with no_last_checkpoints=true, it has only the first
        (tmp_path / "run" / own).touch()
        assert start(other) == ("checkpoint_last.pt", False)
    assert start(earlier) == (earlier, True)
    assert start("checkpoint_last.pt") == ("checkpoint_last.pt", True)


def test_a_requeued_job_does_not_begin_anew_each_time(tmp_path: Path) -> None:
    """SLURM repeats its command, with an earlier checkpoint of the run and the options that reset something."""
    requeued = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    attempts = [
        {"start": "2026-01-01T00:00:00+00:00", "slurm_job": "6"},
        {"start": "2026-01-02T00:00:00+00:00", "slurm_job": "7"},
        {"start": "2026-01-03T00:00:00+00:00", "slurm_job": "7"},
    ]
    since = began_before_requeue(attempts, requeued)
    assert since == datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert began_before_requeue(attempts[:1], requeued) is None
    assert began_before_requeue(attempts, {"SLURM_JOB_ID": "7"}) is None  # commands in an interactive job
    assert began_before_requeue(attempts, {}) is None
    # the last element of an array has the array's own number as SLURM_JOB_ID, others some of their own
    element = {**requeued, "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert began_before_requeue(attempts, element) is None
    assert began_before_requeue([{**attempts[0], "slurm_job": "7_3"}], element) is not None

    def start(since: float | None) -> tuple[str, bool]:
        options = {"save_dir": str(tmp_path), "restore_file": earlier, "checkpoint_suffix": ""}
        given = OmegaConf.create({"checkpoint": {**options, **dict.fromkeys(RESETS, True)}})
        resume_own(given, since)
        return given.checkpoint.restore_file, given.checkpoint.reset_optimizer

    own, earlier = tmp_path / "checkpoint_last.pt", str(tmp_path / "checkpoint_1_500.pt")
    own.touch()
    os.utime(own, (since - 1, since - 1))  # the job was stopped before it had saved anything
    assert start(since) == (earlier, True)
    os.utime(own, (since + 1, since + 1))
    assert start(since) == ("checkpoint_last.pt", False)
    assert start(None) == (earlier, True)
