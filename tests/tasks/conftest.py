"""A prepared task whose examples differ much in length, and the batches that fairseq makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fairseq import tasks
from fairseq.data.iterators import EpochBatchIterator
from omegaconf import OmegaConf

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.files.dictionary import EOS, FIRST
from tests.binarised import write_task

TRAIN, VALID, LONGEST = 3001, 301, 200
MakeTask = Callable[..., Any]


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of 3 to 200 tokens, most of them short, in two classes."""
    folder = tmp_path_factory.mktemp("mixed")
    generator = np.random.default_rng(1)
    words = 50
    sentences = {
        split: [
            [*generator.integers(FIRST, FIRST + words, length - 1), EOS]
            for length in np.clip(generator.lognormal(3, 0.8, count), 3, LONGEST - 1).astype(int)
        ]
        for split, count in (("train", TRAIN), ("valid", VALID))
    }
    examples = {split: [(tokens, tokens[0] % 2) for tokens in found] for split, found in sentences.items()}
    return write_task(folder, ("no", "yes"), examples, words)


@pytest.fixture
def make_task(mixed: Path) -> MakeTask:
    """``make_task(name, **options)``: the task with its train and valid splits."""

    def make(name: str = "bucketed_sentence_prediction", **options: Any) -> Any:
        cfg = {"_name": name, "data": str(mixed), "num_classes": 2, "init_token": 0, "max_positions": LONGEST}
        cfg |= {"regression_target": False, "classification_head_name": "head", "seed": 1, **options}
        task = tasks.setup_task(OmegaConf.create(cfg))
        for split in ("train", "valid"):
            task.load_dataset(split)
        return task

    return make


@pytest.fixture
def iterator() -> Callable[..., EpochBatchIterator]:
    """``iterator(task, split="train", epoch=1, **options)``: as fairseq's trainer asks for it."""

    def get(task: Any, split: str = "train", epoch: int = 1, **options: Any) -> EpochBatchIterator:
        size = {} if "max_tokens" in options else {"max_sentences": 32}
        options = {"max_positions": LONGEST, "seed": task.cfg.seed, **size, **options}
        return task.get_batch_iterator(task.dataset(split), epoch=epoch, **options)

    return get


def batches(iterator: EpochBatchIterator, shuffle: bool = True) -> list[list[int]]:
    """The examples of each batch of the epoch in order; none where a process has less to do than another."""
    return [list(map(int, batch)) for batch in iterator.ordered_batches(iterator.epoch, False, shuffle)]


def padding(iterator: EpochBatchIterator) -> float:
    """Share of the positions of an epoch that are padding."""
    inputs = [batch["net_input"] for batch in iterator.next_epoch_itr() if batch]
    return 1 - sum(int(i["src_lengths"].sum()) for i in inputs) / sum(i["src_tokens"].numel() for i in inputs)
