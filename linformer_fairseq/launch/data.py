"""Whether the data of a run are there, said before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from linformer_fairseq.evaluation.task_data import read_labels
from linformer_fairseq.launch.errors import LaunchError

_PRETRAINING = "scripts/prepare_pretraining.sh makes such a folder (DIR/bin)"
_TASK = "scripts/prepare_task.sh makes such a folder"


def check_pretraining_data(folders: Sequence[Path]) -> None:
    """Raise unless fairseq's masked_lm can read the folders: the first with dict.txt and valid, each with train.

    Raises:
        LaunchError: naming the folder or file that is missing.
    """
    for folder in folders:
        _require_folder(folder, _PRETRAINING)
        _require(folder / "train.idx", _PRETRAINING)
        _require(folder / "train.bin", _PRETRAINING)
    for name in ("dict.txt", "valid.idx", "valid.bin"):
        _require(folders[0] / name, _PRETRAINING)


def check_task_data(folder: Path) -> int:
    """Raise unless fairseq's sentence_prediction can read the folder; returns the number of its classes.

    Raises:
        LaunchError: naming the folder or file that is missing.
    """
    _require_folder(folder, _TASK)
    for part in ("input0", "label"):
        for name in ("dict.txt", "train.idx", "train.bin", "valid.idx", "valid.bin"):
            _require(folder / part / name, _TASK)
    return len(read_labels(folder / "label" / "dict.txt"))


def _require_folder(folder: Path, hint: str) -> None:
    if not folder.is_dir():
        raise LaunchError(f"task.data: {folder}: no such folder; {hint}")


def _require(path: Path, hint: str) -> None:
    if not path.is_file():
        raise LaunchError(f"task.data: {path}: no such file; {hint}")
