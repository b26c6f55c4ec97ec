"""A dictionary of the same size with other symbols is noticed when a checkpoint is loaded."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairseq.trainer import Trainer


@pytest.mark.parametrize("shards", ["", ":absent"], ids=["", "shards"])
@pytest.mark.parametrize("reversed_", [False, True])
def test_a_warning_names_both(
    make_trainer: Callable[..., Trainer],
    tiny_corpus: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    reversed_: bool,
    shards: str,
) -> None:
    trainer = make_trainer(tmp_path / "run")
    (tmp_path / "run").mkdir()
    trainer.consolidate_optimizer()
    path = str(tmp_path / "run" / "checkpoint_last.pt")
    trainer.cfg.task.data = str(tiny_corpus)
    trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})

    data = Path(shutil.copytree(tiny_corpus, tmp_path / "data"))
    symbols = (data / "dict.txt").read_text().splitlines(keepends=True)
    (data / "dict.txt").write_text("".join(symbols[::-1] if reversed_ else symbols))
    settings: dict[str, Any] = {"task.data": str(data)}
    with caplog.at_level(logging.WARNING):
        other = make_trainer(tmp_path / "other", settings)
        other.task.cfg.data += shards
        other.load_checkpoint(path)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert (f"{data / 'dict.txt'}" in said[0]) if reversed_ else said == []
