"""Small binarised data, made without fairseq."""

from collections.abc import Iterable, Mapping, Sequence
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


def write_task(
    folder: Path, names: Sequence[str], examples: Mapping[str, Sequence[tuple[Sequence[int], int]]], words: int = 60
) -> Path:
    """The folder of a task of single texts, for fairseq's sentence_prediction.

    Args:
        folder: to be made.
        names: of the classes.
        examples: ids of the text, and number of the class, of each example of each split.
        words: in the dictionary.
    """
    dictionary.write(folder / "input0" / dictionary.NAME, [(f"word{number}", 1) for number in range(words)])
    for split, rows in examples.items():
        write_items(folder / "input0" / split, [tokens for tokens, _ in rows])
    write_labels(folder, names, {split: [number for _, number in rows] for split, rows in examples.items()})
    return folder
