"""Checks that the data of a run exist, before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linformer_fairseq.files.dictionary import read_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.mmap_dataset import bin_of, idx_of, open_dataset
from linformer_fairseq.files.task_data import read_task

_PRETRAINING = "`linformer data pretraining` makes such a folder (DIR/bin)"
TASKS = ("sst2", "qnli", "qqp", "imdb")
_TASK = "`linformer data task` makes such a folder"


def check_pretraining_data(folders: Sequence[Path]) -> None:
    """Raise unless fairseq's masked_lm can read the folders: the first with dict.txt and valid, each with train.

    Raises:
        UserError: naming the folder or file that is missing, damaged or empty.
    """
    for folder in folders:
        _require_folder(folder, _PRETRAINING)
        if (folder / "input0").is_dir():
            raise UserError(f"task.data: {folder}: a task's data, for finetuning; {_PRETRAINING}")
        _require_split(folder / "train", _PRETRAINING)
    _require(folders[0] / "dict.txt", _PRETRAINING)
    _require_split(folders[0] / "valid", _PRETRAINING)


def check_task_data(folder: Path) -> int:
    """Raise unless fairseq's sentence_prediction can read the folder; returns the number of its classes.

    Raises:
        UserError: naming the folder or file that is missing, damaged or empty.
    """
    _require_folder(folder, _TASK)
    if (folder / "dict.txt").is_file() and not (folder / "input0").is_dir():
        raise UserError(f"task.data: {folder}: data for pretraining, without labels; {_TASK}")
    for part in ("input0", "label"):
        _require(folder / part / "dict.txt", _TASK)
        for split in ("train", "valid"):
            _require_split(folder / part / split, _TASK)
    return len(read_labels(folder / "label" / "dict.txt"))


def check_task_examples(folder: Path) -> None:
    """Read all of the folder, and raise for what would stop fairseq in the middle of the training.

    Raises:
        UserError: naming the split with an id that is not in its dictionary, or an example without a class.
    """
    data = read_task(folder)
    for split in ("train", "valid"):
        try:
            data.require(split)
        except UserError as error:
            raise UserError(f"task.data: {error}") from None


def prepared(folder: Path) -> dict[str, Any]:
    """The manifest that prepare_task wrote: ``task``, ``options`` and more; empty if there is none.

    Raises:
        UserError: it cannot be read.
    """
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return {}
    try:
        found = read_object(manifest, _TASK)
    except UserError as error:
        raise UserError(f"task.data: {error}") from None
    if not isinstance(found.get("options", {}), dict):
        raise UserError(f"task.data: {manifest}: damaged; {_TASK}")
    return found


def _require_folder(folder: Path, hint: str) -> None:
    if not folder.is_dir():
        raise UserError(f"task.data: {folder}: no such folder; {hint}")


def _require(path: Path, hint: str) -> None:
    if not path.is_file():
        raise UserError(f"task.data: {path}: no such file; {hint}")


def _require_split(prefix: Path, hint: str) -> None:
    idx, binary = idx_of(prefix), bin_of(prefix)
    for path in (idx, binary):
        _require(path, hint)
    try:
        dataset = open_dataset(prefix)
    except UserError as error:
        raise UserError(f"task.data: {error}; {hint}") from None
    if not dataset.items:
        raise UserError(f"task.data: {idx}: contains nothing to train or validate on; {hint}")
    expected = int(dataset.offsets[-1]) + int(dataset.sizes[-1]) * dataset.dtype.itemsize
    found = binary.stat().st_size
    if found < expected:
        raise UserError(f"task.data: {binary}: has {found:,} of {expected:,} bytes; {hint}")
