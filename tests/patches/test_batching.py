"""What a run says that goes on with other processes, batches or lengths."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.patches.batching import KEY, difference

MakeTrainer = Callable[..., Trainer]
NOW = {
    "processes": 4,
    "batch_size": 8,
    "max_tokens": None,
    "update_freq": [2],
    "tokens_per_sample": 512,
    "length_window": None,
}


def _told(epoch: int = 1, **before: Any) -> str:
    return difference({**NOW, **before}, NOW, epoch) or ""


def _save_after_an_update(make_trainer: MakeTrainer, folder: Path) -> None:
    trainer = make_trainer(folder)
    iterator = trainer.get_train_iterator(epoch=1)
    trainer.train_step([next(iterator.next_epoch_itr())])
    checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, iterator, None)


def test_nothing_to_say() -> None:
    assert difference(NOW, dict(NOW), 1) is None


def test_checkpoints_from_before_there_were_windows() -> None:
    before = {name: value for name, value in NOW.items() if name != "length_window"}
    assert difference(before, NOW, 1) is None
    told = difference(before, {**NOW, "length_window": 2048}, 1) or ""
    assert "length_window (examples sorted by length together) None -> 2048" in told


def test_other_processes_with_the_same_batch() -> None:
    told = _told(processes=2, update_freq=[4])
    assert "processes 2 -> 4, update_freq (micro-batches per update) [4] -> [2]" in told
    assert "preserved: the order of the batches and the position among them" in told
    assert "\n  preserved: the batch size of an update, 64 sequences" in told
    assert "optimizer state" in told and "best score" in told and "learning rate schedule" in told
    assert "not preserved: the batch" not in told and "approximate" not in told


def test_other_processes_alone_change_the_batch() -> None:
    told = _told(processes=16)
    assert "not preserved: the batch size of an update, 256 sequences -> 64 sequences; the learning rate" in told
    assert "order of the batches" in told and "approximate" not in told


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ({"batch_size": 32}, "256 sequences -> 64 sequences"),
        ({"batch_size": None, "max_tokens": 1024}, "at most 8,192 tokens -> 64 sequences"),
        ({"tokens_per_sample": 128}, "64 sequences -> 64 sequences"),
        ({"length_window": 2048}, "64 sequences -> 64 sequences"),
    ],
)
def test_other_batches(before: dict[str, Any], words: str) -> None:
    told = _told(**before)
    assert f"not preserved: the batch size of an update, {words}" in told
    assert "approximate: the position in the epoch" in told
    assert "not preserved: the composition and order of batches" in told
    assert "preserved: the order" not in told


def test_update_freq_of_the_epoch_counts() -> None:
    assert "128 sequences -> 64 sequences" in _told(epoch=2, update_freq=[1, 4])
    assert "128 sequences -> 64 sequences" in _told(epoch=9, update_freq=[1, 4])
    assert "32 sequences -> 64 sequences" in _told(epoch=1, update_freq=[1, 4])


def test_update_freq_of_later_epochs_counts_too() -> None:
    for schedule in ([2, 4], [2, 2, 4]):
        told = _told(epoch=1, update_freq=schedule)
        assert f"of an update in epoch {len(schedule)}, 128 sequences -> 64 sequences" in told
    assert _told(epoch=1, update_freq=[2, 2]) == _told(epoch=2, update_freq=[4, 2]) == ""
    told = _told(epoch=1, update_freq=[2, 2], batch_size=4)
    assert "update_freq" not in told and "32 sequences -> 64 sequences" in told


@pytest.mark.slow
@pytest.mark.parametrize("change", [{}, {"dataset.batch_size": 4}, {"optimization.update_freq": [2]}])
def test_a_resumed_trainer_compares(
    make_trainer: MakeTrainer, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
) -> None:
    _save_after_an_update(make_trainer, tmp_path)
    record = read_checkpoint(tmp_path / "checkpoint_last.pt")["extra_state"][KEY]
    assert record == {**NOW, "processes": 1, "update_freq": [1], "tokens_per_sample": 32}

    second = make_trainer(tmp_path, change)
    checkpoint_utils.load_checkpoint(second.cfg.checkpoint, second)
    assert second.get_num_updates() == 1
    assert ("this run resumes from a checkpoint with another setup" in caplog.text) == bool(change)
    if "dataset.batch_size" in change:
        assert "8 sequences -> 4 sequences" in caplog.text


def test_a_finetuning_compares_nothing(
    make_trainer: MakeTrainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _save_after_an_update(make_trainer, tmp_path)
    settings = {"checkpoint.finetune_from_model": str(tmp_path / "checkpoint_last.pt"), "dataset.batch_size": 4}
    second = make_trainer(tmp_path / "finetuned", settings)
    checkpoint_utils.load_checkpoint(second.cfg.checkpoint, second)
    assert second.get_num_updates() == 0
    assert "another setup" not in caplog.text


def test_a_run_that_begins_its_data_anew_compares_nothing(
    make_trainer: MakeTrainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no position among the batches to preserve."""
    _save_after_an_update(make_trainer, tmp_path)
    second = make_trainer(tmp_path, {"checkpoint.reset_dataloader": True, "dataset.batch_size": 4})
    checkpoint_utils.load_checkpoint(second.cfg.checkpoint, second)
    assert second.get_num_updates() == 1
    assert "another setup" not in caplog.text
