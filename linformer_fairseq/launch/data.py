"""Whether the data of a run are there, said before anything is queued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linformer_fairseq.evaluation.task_data import read_labels
from linformer_fairseq.launch.errors import LaunchError
from linformer_fairseq.mmap_files import Damaged, open_dataset

_PRETRAINING = "scripts/prepare_pretraining.sh makes such a folder (DIR/bin)"
TASKS = ("sst2", "qnli", "qqp", "imdb")
_TASK = "scripts/prepare_task.sh makes such a folder"


def check_pretraining_data(folders: Sequence[Path]) -> None:
    """Raise unless fairseq's masked_lm can read the folders: the first with dict.txt and valid, each with train.

    Raises:
        LaunchError: naming the folder or file that is missing, damaged or empty.
    """
    for folder in folders:
        _require_folder(folder, _PRETRAINING)
        if (folder / "input0").is_dir():
            raise LaunchError(f"task.data: {folder}: a task's data, for finetuning; {_PRETRAINING}")
        _require_split(folder / "train", _PRETRAINING)
    _require(folders[0] / "dict.txt", _PRETRAINING)
    _require_split(folders[0] / "valid", _PRETRAINING)


def check_task_data(folder: Path) -> int:
    """Raise unless fairseq's sentence_prediction can read the folder; returns the number of its classes.

    Raises:
        LaunchError: naming the folder or file that is missing, damaged or empty.
    """
    _require_folder(folder, _TASK)
    if (folder / "dict.txt").is_file() and not (folder / "input0").is_dir():
        raise LaunchError(f"task.data: {folder}: data for pretraining, without labels; {_TASK}")
    for part in ("input0", "label"):
        _require(folder / part / "dict.txt", _TASK)
        for split in ("train", "valid"):
            _require_split(folder / part / split, _TASK)
    return len(read_labels(folder / "label" / "dict.txt"))


def prepared(folder: Path) -> dict[str, Any]:
    """What prepare_task noted of a task's folder: ``task``, ``options`` and more; empty where it was made otherwise.

    Raises:
        LaunchError: it cannot be read.
    """
    manifest = folder / "manifest.json"
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise LaunchError(f"task.data: {manifest}: cannot be read ({error}); {_TASK}") from None
    if not isinstance(found, dict) or not isinstance(found.get("options", {}), dict):
        raise LaunchError(f"task.data: {manifest}: damaged; {_TASK}")
    return found


def _require_folder(folder: Path, hint: str) -> None:
    if not folder.is_dir():
        raise LaunchError(f"task.data: {folder}: no such folder; {hint}")


def _require(path: Path, hint: str) -> None:
    if not path.is_file():
        raise LaunchError(f"task.data: {path}: no such file; {hint}")


def _require_split(prefix: Path, hint: str) -> None:
    for suffix in (".idx", ".bin"):
        _require(prefix.with_name(prefix.name + suffix), hint)
    try:
        dataset = open_dataset(prefix)
    except Damaged as error:
        raise LaunchError(f"task.data: {error}; {hint}") from None
    if not dataset.items:
        raise LaunchError(f"task.data: {prefix}.idx: holds nothing to train or validate on; {hint}")
    expected = int(dataset.offsets[-1]) + int(dataset.sizes[-1]) * dataset.dtype.itemsize
    found = prefix.with_name(prefix.name + ".bin").stat().st_size
    if found < expected:
        raise LaunchError(f"task.data: {prefix}.bin: {found:,} of {expected:,} bytes are there; {hint}")
