"""Small binarised data, made without fairseq."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.mmap_dataset import write_dataset


def write_items(prefix: Path, items: Iterable[Sequence[int]], vocabulary: int = 100) -> None:
    """``prefix``.bin and ``prefix``.idx of items that are given as they are to be, with </s> where they have one."""
    write_dataset(prefix, (np.asarray(item, dtype=np.int64) for item in items), vocabulary)


def write_labels(folder: Path, names: Sequence[str], splits: dict[str, Iterable[int]]) -> None:
    """The ``label`` folder of a task: its dictionary, and for each split the class number of every example."""
    dictionary.write(folder / "label" / dictionary.NAME, [(name, 1) for name in names])
    for split, classes in splits.items():
        write_items(folder / "label" / split, ([dictionary.FIRST + number, dictionary.EOS] for number in classes))
