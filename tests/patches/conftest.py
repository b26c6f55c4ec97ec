"""A trainer as fairseq's training program builds it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from tests.fairseq_config import parse


@pytest.fixture(autouse=True)
def no_best_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq keeps it on the function; it is forgotten before a test and after it."""
    monkeypatch.setattr(checkpoint_utils.save_checkpoint, "best", None, raising=False)
    monkeypatch.delattr(checkpoint_utils.save_checkpoint, "best")


@pytest.fixture
def make_trainer(
    train_words: Callable[..., list[str]], tiny_settings: dict[str, Any]
) -> Iterator[Callable[..., Trainer]]:
    """``make_trainer(save_dir, **settings)``: one process's trainer, ready for its first update."""

    def make(save_dir: Path, settings: dict[str, Any] | None = None) -> Trainer:
        cfg = parse(*train_words("fairseq-train", {**tiny_settings, **(settings or {})}, Path("unused")))
        cfg.checkpoint.save_dir = str(save_dir)
        cfg.common.tpu = False  # fairseq-train sets it with --bf16, and bf16_devices takes it back
        torch.manual_seed(cfg.common.seed)
        task = tasks.setup_task(cfg.task)
        return Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))

    metrics.reset()
    with metrics.aggregate("train"), metrics.aggregate("train_inner"):
        yield make
    metrics.reset()
