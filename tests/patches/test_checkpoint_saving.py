"""Saving through fairseq's own functions: whole and on the disk, or an error that says what is still there."""

import contextlib
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints import writing
from linformer_fairseq.checkpoints.checksum import Bytes, check_bytes
from linformer_fairseq.patches import checkpoint_saving
from linformer_fairseq.patches.checkpoint_saving import SavingError
from tests.checkpoint_files import damage, make_state, save


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_saving, "_PAUSE", 0.0)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fairseq_saves_with_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint1.pt"
    checkpoint_utils.torch_persistent_save(make_state(3), str(path))
    assert check_bytes(path) == (Bytes.SOUND, "")
    assert _names(tmp_path) == ["checkpoint1.pt"]
    PathManager.copy(str(path), str(tmp_path / "checkpoint_last.pt"), overwrite=True)
    assert check_bytes(tmp_path / "checkpoint_last.pt") == (Bytes.SOUND, "")


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "checkpoint1.pt", []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        seen.append((_names(tmp_path), os.fstat(descriptor).st_size if seen == [] else 0))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    checkpoint_utils.torch_persistent_save(make_state(3), str(path))
    assert seen == [(["checkpoint1.pt.tmp"], path.stat().st_size), (["checkpoint1.pt"], 0)]


def test_a_second_attempt_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint1.pt"
    path.with_name("checkpoint1.pt.tmp").symlink_to("/dev/full")  # it goes with the first attempt
    checkpoint_utils.torch_persistent_save(make_state(3), str(path))
    assert check_bytes(path) == (Bytes.SOUND, "")
    assert f"{path}: cannot be saved (No space left on device); attempt 2 follows" in caplog.text


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "checkpoint1.pt", 2)
    old, attempts = path.read_bytes(), []

    def full(descriptor: int) -> None:
        attempts.append(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        checkpoint_utils.torch_persistent_save(make_state(3), str(path))
    assert caught.value.filename == str(path)
    assert len(attempts) == 3
    assert path.read_bytes() == old and _names(tmp_path) == ["checkpoint1.pt"]


@pytest.mark.parametrize("closes", [True, False])
def test_torchs_own_reason_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closes: bool) -> None:
    """Closing a file may fail once more with what could not be written; then that is the error anyway."""
    path = tmp_path / "c.pt"
    if closes:

        class Full(io.BytesIO):
            def write(self, data: Any) -> int:
                if self.tell() > 500 and len(data):
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        monkeypatch.setattr(writing, "whole_file", lambda _: contextlib.nullcontext(Full()))
    else:
        path.with_name("c.pt.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        writing.write_checkpoint({"weight": torch.ones(10**6)}, str(path))
    assert caught.value.errno == errno.ENOSPC
    assert _names(tmp_path) == []


def test_what_cannot_be_pickled_is_tried_once(tmp_path: Path) -> None:
    tried = []

    class Odd:
        def __reduce__(self) -> Any:
            tried.append(1)
            raise TypeError("no")

    with pytest.raises(TypeError, match="^no$"):
        checkpoint_utils.torch_persistent_save({"odd": Odd()}, str(tmp_path / "c.pt"))
    assert len(tried) == 1 and _names(tmp_path) == []


def test_asynchronous_writes_are_left_to_fairseq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_later(path: str, mode: str) -> Any:
        opened.append(path)
        return Path(path).open(mode)

    monkeypatch.setattr(PathManager, "opena", staticmethod(open_later))
    checkpoint_utils.torch_persistent_save({"a": 1}, str(tmp_path / "c.pt"), async_write=True)
    assert opened == [str(tmp_path / "c.pt")]
    assert check_bytes(tmp_path / "c.pt")[0] is Bytes.NO_CHECKSUM


class _Run:
    """As much of a trainer and an iterator as save_checkpoint looks at."""

    data_parallel_rank, checkpoint_suffix, task = 0, "", None
    should_save_checkpoint_on_current_rank = True

    def __init__(self, folder: Path, epoch: int = 1) -> None:
        self.epoch = epoch
        self.cfg: Any = SimpleNamespace(
            save_dir=str(folder),
            restore_file="checkpoint_last.pt",
            reset_optimizer=False,
            reset_lr_scheduler=False,
            reset_meters=False,
            reset_dataloader=False,
            maximize_best_checkpoint_metric=False,
            no_save=False,
            no_epoch_checkpoints=False,
            save_interval=1,
            save_interval_updates=2,
            keep_best_checkpoints=0,
            keep_interval_updates=-1,
            keep_last_epochs=-1,
            no_last_checkpoints=False,
            write_checkpoints_asynchronously=False,
        )

    def consolidate_optimizer(self) -> None:
        pass

    def end_of_epoch(self) -> bool:
        return False

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": 1, "iterations_in_epoch": self.updates}

    def get_num_updates(self) -> int:
        return self.updates

    def save_checkpoint(self, path: str, extra_state: dict[str, Any]) -> None:
        state = make_state(self.updates)
        checkpoint_utils.torch_persistent_save({**state, "extra_state": extra_state}, path)

    def save(self, updates: int) -> None:
        self.updates = updates
        checkpoint_utils.save_checkpoint(self.cfg, self, self, None)


@pytest.fixture
def failing_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """``failing_after(n, code)``: the n-th fsync from now on and all behind it fail with that OS error."""

    def arrange(count: int, code: int) -> None:
        fsync, calls = os.fsync, iter(range(10**6))

        def fail(descriptor: int) -> None:
            if next(calls) >= count:
                raise OSError(code, os.strerror(code))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)

    return arrange


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_the_run_ends_with_what_is_left(
    tmp_path: Path, failing_after: Callable[[int, int], None], caplog: pytest.LogCaptureFixture, code: int
) -> None:
    run = _Run(tmp_path)
    run.save(2)
    failing_after(0, code)
    with pytest.raises(SavingError) as caught:
        run.save(4)
    message = str(caught.value)
    assert f"{tmp_path}/checkpoint_1_4.pt: the checkpoint cannot be saved: {os.strerror(code)}" in message
    assert errno.errorcode[code] in message
    assert f"The newest valid one is {tmp_path}/checkpoint_last.pt (2 updates)" in message
    assert ("make room" in message) == (code != errno.EIO) and "the same command then resumes" in message
    assert message in caplog.text
    assert _names(tmp_path) == ["checkpoint_1_2.pt", "checkpoint_last.pt"]


def test_a_failed_copy_names_the_copy(tmp_path: Path, failing_after: Callable[[int, int], None]) -> None:
    run = _Run(tmp_path)
    run.save(2)
    failing_after(2, errno.ENOSPC)  # file and folder of checkpoint_1_4.pt; then the copy
    with pytest.raises(SavingError, match=f"^{tmp_path}/checkpoint_last.pt: the checkpoint cannot be saved"):
        run.save(4)
    assert _names(tmp_path) == ["checkpoint_1_2.pt", "checkpoint_1_4.pt", "checkpoint_last.pt"]


def test_damaged_ones_are_not_promised(tmp_path: Path, failing_after: Callable[[int, int], None]) -> None:
    run = _Run(tmp_path)
    run.save(2)
    run.save(4)
    for name in ("checkpoint_last.pt", "checkpoint_1_4.pt"):
        damage(tmp_path / name)
    failing_after(0, errno.ENOSPC)
    with pytest.raises(SavingError, match=f"{tmp_path}/checkpoint_1_2.pt .2 updates."):
        run.save(6)


def test_nothing_to_go_on_from(tmp_path: Path, failing_after: Callable[[int, int], None]) -> None:
    failing_after(0, errno.ENOSPC)
    with pytest.raises(SavingError, match=f"No earlier one is in {tmp_path}"):
        _Run(tmp_path).save(2)


def test_a_file_that_is_no_checkpoint_is_not_promised(
    tmp_path: Path, failing_after: Callable[[int, int], None]
) -> None:
    torch.save({"model": {}}, tmp_path / "checkpoint_last.pt")
    failing_after(0, errno.ENOSPC)
    with pytest.raises(SavingError, match=f"No earlier one is in {tmp_path}"):
        _Run(tmp_path).save(2)


def test_a_restore_file_would_begin_there_again(tmp_path: Path, failing_after: Callable[[int, int], None]) -> None:
    run = _Run(tmp_path)
    run.save(2)
    run.cfg.restore_file = "roberta.pt"
    failing_after(0, errno.ENOSPC)
    with pytest.raises(SavingError, match="without --restore-file roberta.pt"):
        run.save(4)


def test_the_best_score_is_kept_where_fairseq_looks(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    for updates, loss in ((2, 3.0), (4, 5.0)):
        run.updates = updates
        checkpoint_utils.save_checkpoint(run.cfg, run, run, loss)
    assert checkpoint_utils.save_checkpoint.best == 3.0
    best = torch.load(tmp_path / "checkpoint_best.pt", weights_only=True)
    assert best["optimizer_history"][0]["num_updates"] == 2
