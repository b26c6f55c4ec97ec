"""Checks that data have the dictionaries that a checkpoint was trained with.

Of its dictionaries, a checkpoint of fairseq has the sizes only. With others of the same size it would be used without
an error, and every token or class would mean something else. Their contents are known from the files beside the
checkpoint (of a released, converted or imported model), from the digests in the run.json beside it, or from the folder
of its training data, in this order. If there is none of these, the sizes alone are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import training_data
from linformer_fairseq.files import run_record
from linformer_fairseq.files.dictionary import (
    NAME,
    embedding_rows,
    find_dictionary,
    read_labels,
    read_vocabulary,
    without_padding,
)
from linformer_fairseq.files.errors import UserError

_TOKENS, _CLASSES = "tokens", "classes"
"""Keys of the digests in run.json."""


def check_tokens(weights: Path, rows: int, linformer: bool, dict_txt: Path) -> None:
    """Raise unless token ids mean in ``dict_txt`` what they meant in a model's training.

    Args:
        weights: file of the model.
        rows: of its token embedding.
        linformer: see `files.dictionary.embedding_rows`.
        dict_txt: dictionary of the data.

    Raises:
        UserError: the dictionaries differ, or one cannot be read; the message names both.
    """
    made = embedding_rows(dict_txt, linformer)
    if made != rows:
        raise UserError(
            f"{weights}: was trained with a dictionary of {rows:,} symbols, but {dict_txt} makes {made:,} (fairseq's "
            f"own included); {_HINTS[_TOKENS]}"
        )
    check_same(weights, dict_txt)


def check_same(weights: Path, dict_txt: Path) -> None:
    """Do as `check_tokens` for a model of which the size is checked elsewhere.

    Raises:
        UserError: see there.
    """
    _check(weights, _TOKENS, dict_txt)


def check_data(weights: Path, data: Path) -> None:
    """Do as `check_same` with all dictionaries in a folder of data, those of a task's classes among them.

    Raises:
        UserError: see `check_tokens` and `check_classes`.
    """
    for kind in _READERS:
        if (path := _find(data, kind)) is not None:
            _check(weights, kind, path)


def check_classes(weights: Path, classes: int, dict_txt: Path) -> None:
    """Raise unless the outputs of a classifier mean in ``dict_txt`` what they meant in its training.

    Args:
        weights: file of the model.
        classes: outputs of its classification head.
        dict_txt: dictionary of the labels of the data.

    Raises:
        UserError: the classes differ, or a file cannot be read; the message names both.
    """
    labels = read_labels(dict_txt)
    if len(labels) != classes:
        raise UserError(
            f"{weights}: its head has {classes} classes, but {dict_txt} has {len(labels)} ({', '.join(labels)}); "
            f"{_HINTS[_CLASSES]}"
        )
    _check(weights, _CLASSES, dict_txt)


def digests(data: Path) -> dict[str, str]:
    """SHA-256 of the dictionaries in a folder of data, for the run.json of a training on it.

    Returns:
        by `_TOKENS` and, for a task with classes, `_CLASSES`. What a dictionary is padded with makes no difference.

    Raises:
        UserError: a dictionary cannot be read.
    """
    found = {kind: _find(data, kind) for kind in _READERS}
    return {kind: _digest(kind, path) for kind, path in found.items() if path is not None}


def _check(weights: Path, kind: str, ours: Path) -> None:
    known = _known(weights, kind)
    if known is not None and known[1] != _digest(kind, ours):
        raise UserError(f"{weights}: was trained with {known[0]}, which differs from {ours}; {_HINTS[kind]}")


def _known(weights: Path, kind: str) -> tuple[str, str] | None:
    """Where the dictionary of a model's training is known from, and its digest."""
    path = _find(weights.parent, kind)
    if path is None and (weights.parent / run_record.NAME).is_file():
        recorded = run_record.read_record(weights.parent).dictionaries
        if kind in recorded:
            return f"the dictionary of {kind} recorded in {weights.parent / run_record.NAME}", recorded[kind]
    if path is None and (folder := training_data(weights)) != Path():  # not known
        path = _find(folder, kind)
    return None if path is None else (str(path), _digest(kind, path))


def _find(folder: Path, kind: str) -> Path | None:
    if kind == _TOKENS:
        return find_dictionary(folder)
    path = folder / "label" / NAME
    return path if path.is_file() else None


def _digest(kind: str, path: Path) -> str:
    return hashlib.sha256("\n".join(_READERS[kind](path)).encode()).hexdigest()


def _real_symbols(path: Path) -> list[str]:
    return without_padding(read_vocabulary(path))


_READERS: dict[str, Callable[[Path], list[str]]] = {_TOKENS: _real_symbols, _CLASSES: read_labels}
_HINTS = {
    _TOKENS: "expected data that were prepared with the tokenizer of its own training data",
    _CLASSES: "was it finetuned on another task?",
}
