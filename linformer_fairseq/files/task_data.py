"""A folder that ``linformer data task`` or fairseq-preprocess wrote: its labels, identifiers and manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.dictionary import read_labels, read_vocabulary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, shortened
from linformer_fairseq.files.mmap_check import check
from linformer_fairseq.files.mmap_dataset import Dataset, bin_of, idx_of, open_dataset
from linformer_fairseq.files.provenance import MANIFEST
from linformer_fairseq.files.soft_labels import SOFT_LABELS, Probabilities, soft_labels_of, stored_soft_labels
from linformer_fairseq.files.text import read_text

_HINT = "prepare the task again"
_FILE_NAME = re.compile(r"[\w-][\w. -]*")


@dataclass(frozen=True)
class TaskData:
    """Labels and manifest of a task's folder."""

    folder: Path
    labels: tuple[str, ...]
    """Label number i of a model's output is labels[i]."""
    manifest: dict[str, Any]
    """Empty if the folder was made by another program, such as fairseq-preprocess."""

    @property
    def positive(self) -> int | None:
        """Number of the class whose F1 the task reports."""
        name = self.manifest.get("positive")
        return self.labels.index(name) if name in self.labels else None

    @property
    def submission(self) -> str | None:
        """File name of the submission to GLUE; None if the task is not in GLUE.

        Raises:
            UserError: the manifest has another value, such as a path, which would be written to.
        """
        name = self.manifest.get("submission")
        if name is not None and (not isinstance(name, str) or not _FILE_NAME.fullmatch(name)):
            raise UserError(f"{self.folder / MANIFEST}: submission is {shortened(name)}; expected the name of a file")
        return name

    @property
    def files(self) -> list[Path]:
        """The files that are read, as far as they exist."""
        parts = (*text_folders(self.folder), "label", "ids", SOFT_LABELS)
        return [self.folder / MANIFEST, *(path for part in parts for path in sorted((self.folder / part).glob("*")))]

    def rejected(self, split: str) -> int:
        """Number of rows of a split that are not in the folder because they are invalid.

        Raises:
            UserError: the manifest has no such number.
        """
        try:
            return int(self.manifest.get("splits", {}).get(split, {}).get("counts", {}).get("rejected", 0))
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise UserError(f"{self.folder / MANIFEST}: damaged counts of {split}; {_HINT}") from None

    def require(self, split: str) -> None:
        """Raise unless the split exists, and all of it can be read.

        Raises:
            UserError: with the names of existing splits, or what is wrong in which file.
        """
        splits = sorted(path.stem for path in (self.folder / "input0").glob("*.idx"))
        if split not in splits:
            raise UserError(f"{self.folder}: no split {split!r}; it has: {', '.join(splits) or 'none'}")
        words = len(read_vocabulary(self.folder / "input0" / dictionary.NAME))
        classes = len(read_vocabulary(self.folder / "label" / dictionary.NAME))
        parts = [(text, words) for text in text_folders(self.folder)]
        if self.has_labels(split):  # and not numbers in their place, or none
            parts.append(("label", classes))
        examples = 0
        for part, symbols in parts:
            prefix = self.folder / part / split
            if not (idx := idx_of(prefix)).is_file():
                raise UserError(f"{idx}: no such file, but the task has pairs of texts ({part}); {_HINT}")
            dataset = open_dataset(prefix)
            if not dataset.items:
                raise UserError(f"{prefix}: the split has no examples")
            examples = examples or dataset.items
            if dataset.items != examples:
                raise UserError(f"{prefix}: {dataset.items:,} examples, but input0 has {examples:,}; {_HINT}")
            check(dataset, symbols)
            if part == "label":
                self._check_labels(dataset)

    def has_labels(self, split: str) -> bool:
        """Whether the examples of a split have labels."""
        return idx_of(self.folder / "label" / split).is_file()

    def soft_labels(self, split: str) -> Probabilities:
        """The soft labels of a split, (examples, classes).

        Raises:
            UserError: see `stored_soft_labels`; or the split has no labels.
        """
        examples = open_dataset(self.folder / "label" / split).items
        return stored_soft_labels(soft_labels_of(self.folder, split), examples, len(self.labels))

    def _check_labels(self, dataset: Dataset) -> None:
        """Raise unless each example has one class of the dictionary, which fairseq-preprocess does not ensure."""
        ids = np.fromfile(bin_of(dataset.prefix), dataset.dtype).astype(np.int64)
        first = ids[dataset.offsets // dataset.dtype.itemsize]
        bad = (dataset.sizes != 2) | (first < dictionary.FIRST) | (first >= dictionary.FIRST + len(self.labels))
        if bad.any():
            names = ", ".join(self.labels[:5])
            raise UserError(
                f"{dataset.prefix}: {int(bad.sum()):,} examples without one of the classes {names} (the first: example "
                f"{int(bad.argmax()):,}, counted from 0); {_HINT}"
            )

    def identifiers(self, split: str) -> list[str]:
        """Each example's number in GLUE's files; its row, from 0, in a folder that another program made.

        Raises:
            UserError: they are not as many as the examples, or the file is no text, or is lost.
        """
        count = open_dataset(self.folder / "input0" / split).items
        path = self.folder / "ids" / f"{split}.txt"
        if not path.is_file():
            if self.manifest:  # without it, windows would count as texts, and rows have other numbers than GLUE's
                raise UserError(f"{path}: no such file, which `linformer data task` writes; {_HINT}")
            return [str(row) for row in range(count)]
        identifiers = read_text(path).removesuffix("\n").split("\n") if path.stat().st_size else []
        if len(identifiers) != count:
            raise UserError(f"{path}: {len(identifiers):,} lines for {count:,} examples; {_HINT}")
        return identifiers


def text_folders(folder: Path) -> tuple[str, ...]:
    """The names of the folders with the texts of a task: ``input0``, and ``input1`` if its examples are pairs.

    fairseq asks each split for its ``input1``, and takes pairs without theirs for single texts.
    """
    return ("input0", "input1") if (folder / "input1").is_dir() else ("input0",)


def read_task(folder: Path) -> TaskData:
    """Read the labels and the manifest of a folder.

    Raises:
        UserError: it is not a folder of fairseq's sentence_prediction, or its manifest is damaged.
    """
    if folder.is_file():
        raise UserError(f"{folder}: is a file; expected a task's folder, the --out of linformer data task")
    dictionaries = [folder / "input0" / "dict.txt", folder / "label" / "dict.txt"]
    for path in dictionaries:
        if not path.is_file():
            raise UserError(f"{path}: no such file; expected a task's folder, the --out of linformer data task")
    manifest = folder / MANIFEST
    found = read_object(manifest, _HINT) if manifest.is_file() else {}
    return TaskData(folder, tuple(read_labels(dictionaries[1])), found)
