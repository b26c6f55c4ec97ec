"""A prepared task whose examples differ much in length, and the batches that fairseq makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fairseq")

import numpy as np
import torch
from fairseq import tasks
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.iterators import EpochBatchIterator
from omegaconf import OmegaConf

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)

TRAIN, VALID, LONGEST = 3001, 301, 200
MakeTask = Callable[..., Any]


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of 3 to 200 tokens, most of them short, in two classes."""
    folder = tmp_path_factory.mktemp("mixed")
    generator = np.random.default_rng(1)
    words, labels = Dictionary(), Dictionary()
    for number in range(50):
        words.add_symbol(f"word{number}")
    for name in ("no", "yes"):
        labels.add_symbol(name)
    for part, dictionary in (("input0", words), ("label", labels)):
        (folder / part).mkdir()
        dictionary.save(str(folder / part / "dict.txt"))
    for split, count in (("train", TRAIN), ("valid", VALID)):
        prefixes = {part: str(folder / part / split) for part in ("input0", "label")}
        builders = {
            part: indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=60)
            for part, prefix in prefixes.items()
        }
        for length in np.clip(generator.lognormal(3, 0.8, count), 3, LONGEST - 1).astype(int):
            sentence = [*generator.integers(words.nspecial, len(words), length - 1), words.eos()]
            builders["input0"].add_item(torch.tensor(sentence))
            builders["label"].add_item(torch.tensor([labels.nspecial + sentence[0] % 2, labels.eos()]))
        for part, prefix in prefixes.items():
            builders[part].finalize(f"{prefix}.idx")
    return folder


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
