"""What a run goes on from: the last checkpoint, the newest valid one in its place, or an error."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints import folder as folder_module
from linformer_fairseq.checkpoints.folder import State, examine
from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.patches import recovery
from linformer_fairseq.patches.recovery import Prepared, prepare
from tests.checkpoint_files import damage, make_state, save


def _options(folder: Path, **changed: Any) -> SimpleNamespace:
    values = {
        "save_dir": str(folder),
        "restore_file": "checkpoint_last.pt",
        "finetune_from_model": None,
        "continue_once": None,
        "no_save": False,
        "no_last_checkpoints": False,
        "optimizer_overrides": "{}",
        "reset_optimizer": False,
        "reset_lr_scheduler": False,
        "reset_meters": False,
        "reset_dataloader": True,
    }
    return SimpleNamespace(**{**values, **changed})


def _trainer(load: Callable[..., None], **changed: Any) -> SimpleNamespace:
    """A trainer that has loaded nothing yet; ``load`` is called with a checkpoint's path."""
    parts = {"is_fsdp": False, "use_sharded_state": False, "model_parallel_size": 1, "base_layers": 0, **changed}
    return SimpleNamespace(
        cfg=SimpleNamespace(
            common=SimpleNamespace(model_parallel_size=parts["model_parallel_size"]),
            model=SimpleNamespace(base_layers=parts["base_layers"]),
            distributed_training=SimpleNamespace(use_sharded_state=parts["use_sharded_state"]),
        ),
        is_fsdp=parts["is_fsdp"],
        checkpoint_suffix="",
        data_parallel_world_size=1,
        load_checkpoint=load,
        get_train_iterator=lambda **_: SimpleNamespace(epoch=1),
        lr_step=lambda epoch: None,
        get_num_updates=lambda: 0,
        _optim_history=[],
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """After 6 updates: a checkpoint every two, the best at 4."""
    run = tmp_path / "run"
    for name, updates in (("1_2", 2), ("1_4", 4), ("_best", 4), ("1_6", 6), ("_last", 6)):
        save(run / f"checkpoint{'_' if name[0] != '_' else ''}{name}.pt", updates)
    return run


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _last(folder: Path) -> int:
    return int(torch.load(folder / "checkpoint_last.pt", weights_only=True)["optimizer_history"][-1]["num_updates"])


def test_a_sound_last_one_stays(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    # so that loading it does not read it for a check again
    assert prepare(_options(folder), "") == Prepared(whole=examine(folder / "checkpoint_last.pt"))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert caplog.records == []


def test_an_older_last_one_is_meant(folder: Path) -> None:
    save(folder / "checkpoint_last.pt", 2)  # a user who goes back
    prepare(_options(folder), "")
    assert _last(folder) == 2


def test_a_damaged_last_one_is_replaced_by_the_newest(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    damage(folder / "checkpoint_last.pt")
    bad = (folder / "checkpoint_last.pt").read_bytes()
    assert prepare(_options(folder), "").copied
    assert _last(folder) == 6
    assert (folder / "checkpoint_last.pt.damaged").read_bytes() == bad
    assert f"{folder}/checkpoint_last.pt: damaged, its bytes do not match the SHA-256" in caplog.text
    assert f"It is kept as {folder}/checkpoint_last.pt.damaged" in caplog.text
    assert f"resuming from {folder}/checkpoint_1_6.pt (6 updates)" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_damaged_ones_on_the_way_are_put_aside_too(folder: Path) -> None:
    for name in ("checkpoint_last.pt", "checkpoint_1_6.pt", "checkpoint_1_2.pt"):
        damage(folder / name)
    (folder / "checkpoint_best.pt").unlink()
    prepare(_options(folder), "")
    assert _last(folder) == 4
    assert _names(folder) == {
        "checkpoint_last.pt",
        "checkpoint_last.pt.damaged",
        "checkpoint_1_6.pt.damaged",
        "checkpoint_1_4.pt",
        "checkpoint_1_2.pt",  # older: not looked at
    }


def test_damaged_ones_that_do_not_say_their_updates_are_put_aside_too(folder: Path) -> None:
    damage(folder / "checkpoint_last.pt")
    for name in ("checkpoint_1_6.pt", "checkpoint_best.pt"):
        (folder / name).write_bytes(b"PK")
    prepare(_options(folder), "")
    assert _last(folder) == 4
    assert {"checkpoint_1_6.pt.damaged", "checkpoint_best.pt.damaged"} <= _names(folder)


def test_one_kept_aside_is_never_overwritten(folder: Path) -> None:
    (folder / "checkpoint_last.pt.damaged").write_text("the first")
    (folder / "checkpoint_last.pt.damaged.2").symlink_to("nowhere")
    damage(folder / "checkpoint_last.pt")
    prepare(_options(folder), "")
    assert (folder / "checkpoint_last.pt.damaged").read_text() == "the first"
    assert (folder / "checkpoint_last.pt.damaged.3").is_file()


@pytest.mark.parametrize("length", [0, 100, 3000, -1])
def test_truncated(folder: Path, length: int) -> None:
    path = folder / "checkpoint_last.pt"
    path.write_bytes(path.read_bytes()[:length])
    prepare(_options(folder), "")
    assert _last(folder) == 6


def test_a_missing_last_one(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "checkpoint_last.pt").unlink()
    assert prepare(_options(folder), "").copied
    assert _last(folder) == 6
    assert "resuming from" in caplog.text


def test_names_that_are_no_checkpoints_of_the_run(folder: Path) -> None:
    for name in ("crash.pt", "checkpoint_1_9-shard0.pt", "checkpoint_roberta.pt", "model.pt"):
        save(folder / name, 9)
    damage(folder / "checkpoint_last.pt")
    prepare(_options(folder), "")
    assert _last(folder) == 6


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint3.pt",
        "checkpoint_2_9.pt",
        "checkpoint_best.pt",
        "checkpoint.best_loss_2.3450.pt",
        "checkpoint.best_mcc_-0.1230.pt",
    ],
)
def test_every_name_of_fairseq_counts(folder: Path, name: str) -> None:
    save(folder / name, 9)
    damage(folder / "checkpoint_last.pt")
    prepare(_options(folder), "")
    assert _last(folder) == 9


def test_suffix(folder: Path) -> None:
    save(folder / "checkpoint_1_2-a.pt", 2)
    prepare(_options(folder), "-a")
    assert (folder / "checkpoint_last-a.pt").read_bytes() == (folder / "checkpoint_1_2-a.pt").read_bytes()
    assert _last(folder) == 6


def test_nothing_sound_is_an_error_and_stays_one(folder: Path) -> None:
    for path in folder.iterdir():
        damage(path)
    before = _names(folder)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no valid checkpoint in .*checkpoint_last.pt: its bytes"):
            prepare(_options(folder), "")
    assert _names(folder) == before


def test_a_new_run_begins(tmp_path: Path) -> None:
    assert not prepare(_options(tmp_path / "new"), "").copied
    (tmp_path / "new").mkdir()
    assert not prepare(_options(tmp_path / "new"), "").copied


def test_only_what_claims_to_be_newer_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(folder / "checkpoint_last.pt")
    read: list[str] = []
    check = folder_module.check_bytes
    monkeypatch.setattr(folder_module, "check_bytes", lambda path: (read.append(path.name), check(path))[1])
    prepare(_options(folder), "")
    assert read == ["checkpoint_last.pt", "checkpoint_1_6.pt"]


def test_what_cannot_be_loaded_is_not_called_damaged(folder: Path) -> None:
    torch.save({"weight": torch.ones(2)}, folder / "checkpoint_last.pt")
    assert examine(folder / "checkpoint_last.pt").state is State.UNREADABLE
    assert not prepare(_options(folder), "").copied  # fairseq loads it, and says why it cannot
    assert "checkpoint_last.pt.damaged" not in _names(folder)

    (folder / "checkpoint_last.pt").rename(folder / "checkpoint_1_8.pt")
    prepare(_options(folder), "")
    assert _last(folder) == 6 and "checkpoint_1_8.pt" in _names(folder)


def test_without_checksums(folder: Path) -> None:
    torch.save(make_state(8), folder / "checkpoint_1_8.pt")
    torch.save(make_state(10), folder / "checkpoint_1_10.pt", _use_new_zipfile_serialization=False)
    damage(folder / "checkpoint_last.pt")
    prepare(_options(folder), "")
    assert _last(folder) == 10
    assert examine(folder / "checkpoint_1_8.pt").state is State.NO_CHECKSUM
    path = folder / "checkpoint_last.pt"
    path.write_bytes(path.read_bytes()[:-100])
    (folder / "checkpoint_1_10.pt").unlink()
    prepare(_options(folder), "")
    assert _last(folder) == 8


def test_unfinished_files_are_removed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    mine = ("checkpoint_1_8.pt.tmp", "checkpoint_last.pt.tmp", "checkpoint.best_loss_2.34.pt.tmp", "crash.pt.tmp")
    for name in (*mine, "notes.tmp"):
        (folder / name).write_text("half")
    prepare(_options(folder), "")
    assert not _names(folder) & set(mine)
    assert "notes.tmp" in _names(folder)
    assert all(f"removed {folder / name}" in caplog.text for name in mine)


def test_a_run_that_saves_nothing_removes_nothing(folder: Path) -> None:
    """Another one may be saving there."""
    (folder / "checkpoint_1_8.pt.tmp").write_text("half")
    prepare(_options(folder, no_save=True), "")
    assert "checkpoint_1_8.pt.tmp" in _names(folder)


def test_a_named_file_must_be_there_and_sound(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "roberta.pt"
    with pytest.raises(CheckpointError, match=f"--restore-file {path}: no such file"):
        prepare(_options(folder, restore_file=str(path)), "")
    save(path, 100)
    assert not prepare(_options(folder, restore_file=str(path)), "").copied
    damage(path)
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        place = folder if option == "restore_file" else tmp_path / "new"
        with pytest.raises(CheckpointError, match=f"{path}: damaged.* SHA-256"):
            prepare(_options(place, **{option: str(path)}), "")
    assert path.is_file()
    # The run has begun: what it was begun from is not needed again.
    assert not prepare(_options(folder, finetune_from_model=str(path)), "").copied


def test_a_named_file_is_the_one_of_the_suffix(tmp_path: Path) -> None:
    save(tmp_path / "x.pt")
    damage(save(tmp_path / "x-shard1.pt"))
    with pytest.raises(CheckpointError, match="x-shard1.pt: damaged"):
        prepare(_options(tmp_path / "run", restore_file=str(tmp_path / "x.pt")), "-shard1")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq reads other paths than the disk's, as it does with iopath's handlers."""
    monkeypatch.setattr(PathManager, "path_requires_pathmanager", lambda path: path.startswith("s3://"))


@pytest.mark.usefixtures("remote")
@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model", "continue_once"])
def test_a_remote_file_is_not_missing(tmp_path: Path, option: str) -> None:
    assert prepare(_options(tmp_path, **{option: "s3://bucket/x.pt"}), "") == Prepared()


@pytest.mark.usefixtures("remote")
def test_a_run_in_a_remote_folder_may_have_begun(tmp_path: Path) -> None:
    """What it was begun from is not needed again."""
    cfg = _options(tmp_path, save_dir="s3://bucket/run", finetune_from_model=str(tmp_path / "moved.pt"))
    assert prepare(cfg, "") == Prepared()


@pytest.mark.parametrize("option", ["no_save", "no_last_checkpoints"])
def test_a_run_that_keeps_no_last_one_does_not_go_back(
    folder: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy would not be renewed, and the next start would take it for the newest."""
    last = folder / "checkpoint_last.pt"
    last.unlink()
    steps: list[tuple[str, bool]] = []

    def load(path: str, *_: Any, **__: Any) -> None:
        steps.append((path, last.is_file()))

    monkeypatch.setattr(recovery, "wait", lambda: steps.append(("the other processes load it", last.is_file())))
    checkpoint_utils.load_checkpoint(_options(folder, **{option: True}), _trainer(load))
    assert steps == [(str(last), True), ("the other processes load it", True)]
    assert "checkpoint_last.pt" not in _names(folder)


@pytest.mark.parametrize("option", ["no_save", "no_last_checkpoints"])
def test_only_a_copy_is_removed(folder: Path, option: str) -> None:
    before = _names(folder)
    checkpoint_utils.load_checkpoint(_options(folder, **{option: True}), _trainer(lambda *_, **__: None))
    assert _names(folder) == before


def test_a_run_that_keeps_the_last_one_keeps_the_copy(folder: Path) -> None:
    """It may be killed before it saves one, and be resumed with what is there."""
    (folder / "checkpoint_last.pt").unlink()
    checkpoint_utils.load_checkpoint(_options(folder), _trainer(lambda *_, **__: None))
    assert _last(folder) == 6


@pytest.mark.parametrize(
    "parts", [{"is_fsdp": True, "use_sharded_state": True}, {"model_parallel_size": 2}, {"base_layers": 1}]
)
def test_checkpoints_in_parts_are_left_as_they_are(folder: Path, parts: dict[str, Any]) -> None:
    """Another update's part in place of a damaged one would not fit the others."""
    damage(folder / "checkpoint_last.pt")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    loaded: list[str] = []
    trainer = _trainer(lambda path, *_, **__: loaded.append(path), **parts)
    checkpoint_utils.load_checkpoint(_options(folder), trainer)
    assert loaded == [f"{folder}/checkpoint_last.pt"]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def _save_without_optimizer(make_trainer: Callable[..., Any], path: Path) -> None:
    trainer = make_trainer(path.parent, {"checkpoint.no_save_optimizer_state": True})
    trainer.set_num_updates(3)
    position = {"epoch": 1, "iterations_in_epoch": 1}
    trainer.save_checkpoint(str(path), {"train_iterator": position, "val_loss": None})


def test_a_run_does_not_resume_without_the_state_of_its_optimizer(
    make_trainer: Callable[..., Any], tmp_path: Path
) -> None:
    """Its updates would be counted from 0 again, however often it is stopped."""
    _save_without_optimizer(make_trainer, tmp_path / "checkpoint_last.pt")
    other = make_trainer(tmp_path, {"checkpoint.no_save_optimizer_state": True})
    with pytest.raises(CheckpointError, match="checkpoint_last.pt: has no optimizer state .*reset_optimizer=true"):
        checkpoint_utils.load_checkpoint(other.cfg.checkpoint, other)
    other.cfg.checkpoint.reset_optimizer = True
    checkpoint_utils.load_checkpoint(other.cfg.checkpoint, other)


@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model", "continue_once"])
def test_a_run_begins_from_a_named_file_without_the_state_of_its_optimizer(
    make_trainer: Callable[..., Any], tmp_path: Path, option: str
) -> None:
    path = tmp_path / "roberta.pt"
    _save_without_optimizer(make_trainer, path)
    run = tmp_path / "run"
    if option == "restore_file":  # the others are for a run's first start
        save(run / "checkpoint_last.pt", 1)
    trainer = make_trainer(run, {f"checkpoint.{option}": str(path)})
    checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
    assert trainer.get_num_updates() == 0
    assert trainer._optim_history[-1]["num_updates"] == 3, "another file was loaded"


def test_the_last_checkpoint_may_be_named(tmp_path: Path) -> None:
    """Scripts that resume by themselves name it before it is there."""
    assert prepare(_options(tmp_path, restore_file=str(tmp_path / "checkpoint_last.pt")), "").whole is None
