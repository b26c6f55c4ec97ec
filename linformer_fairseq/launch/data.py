"""Checks that the data of a run exist and fit its model, before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from omegaconf import DictConfig

from linformer_fairseq.files.dictionary import NAME, read_labels, read_vocabulary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import bin_of, idx_of, open_dataset
from linformer_fairseq.files.task_data import read_task, text_folders

_PRETRAINING = "`linformer data pretraining` makes such a folder (DIR/bin)"
TASKS = ("sst2", "qnli", "qqp", "imdb")
_TASK = "`linformer data task` makes such a folder"


# A dictionary of other data lacks some of the first so many ids; reading all of a corpus would take minutes.
_LOOKED_AT = 1 << 22


class Splits(NamedTuple):
    """The splits that a run reads."""

    train: str = "train"
    valid: tuple[str, ...] = ("valid",)

    @classmethod
    def of(cls, dataset: DictConfig) -> Splits:
        """Those of the options ``dataset``."""
        valid = () if dataset.disable_validation else tuple(dataset.valid_subset.split(","))
        return cls(dataset.train_subset, valid)

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return (self.train, *self.valid)


_USUAL = Splits()


def check_pretraining_data(folders: Sequence[Path], splits: Splits) -> None:
    """Raise unless fairseq's masked_lm can read the folders: the first with dict.txt and valid, each with train.

    Raises:
        UserError: naming the folder or file that is missing, damaged or empty, or of other data than the dictionary.
    """
    for folder in folders:
        _require_folder(folder, _PRETRAINING)
        if (folder / "input0").is_dir():
            raise UserError(f"task.data: {folder}: a task's data, for finetuning; {_PRETRAINING}")
        if shards := _shards_of(folder, splits.train):
            raise UserError(f"task.data: {folder}: is divided into shards; give them: task.data={':'.join(shards)}")
        _require_split(folder, splits.train, splits, _PRETRAINING)
    dictionary = folders[0] / NAME
    _require(dictionary, _PRETRAINING)
    for split in splits.valid:
        _require_split(folders[0], split, splits, _PRETRAINING)
    try:
        symbols = len(read_vocabulary(dictionary))
    except UserError as error:
        raise UserError(f"task.data: {error}; {_PRETRAINING}") from None
    for prefix in (*(folder / splits.train for folder in folders), *(folders[0] / split for split in splits.valid)):
        first = np.fromfile(bin_of(prefix), open_dataset(prefix).dtype, _LOOKED_AT)
        smallest, largest = int(first.min(initial=0)), int(first.max(initial=0))
        if largest >= symbols or smallest < 0:
            raise UserError(
                f"task.data: {bin_of(prefix)} has the id {smallest or largest:,}, but {dictionary} has {symbols:,} "
                f"symbols: it is cut off, or that of other data; {_PRETRAINING}"
            )


def check_task_data(folder: Path, splits: Splits) -> list[str]:
    """Raise unless fairseq's sentence_prediction can read the folder; returns the names of its classes.

    Raises:
        UserError: naming the folder or file that is missing, damaged or empty.
    """
    _require_folder(folder, _TASK)
    if (folder / NAME).is_file() and not (folder / "input0").is_dir():
        raise UserError(f"task.data: {folder}: data for pretraining, without labels; {_TASK}")
    for part in ("input0", "label"):
        _require(folder / part / NAME, _TASK)
    for part in (*text_folders(folder), "label"):
        for split in splits.all:
            _require_split(folder / part, split, splits, _TASK)
    return read_labels(folder / "label" / NAME)


def check_soft_labels(folder: Path, splits: Splits) -> None:
    """Raise unless a task has the soft labels of its training examples.

    Raises:
        UserError: it has none, or damaged ones, or the training examples are of another split than theirs.
    """
    if splits.train != _USUAL.train:
        raise UserError(
            f"dataset.train_subset={splits.train}: soft labels are those of {_USUAL.train}; use the criterion "
            "sentence_prediction"
        )
    read_task(folder).soft_labels(splits.train)


def check_task_name(task: str | None, folder: Path) -> None:
    """Raise for a folder that was prepared as another one of `TASKS` than ``task``.

    Raises:
        UserError: it was, or its manifest is damaged.
    """
    prepared = read_task(folder).manifest.get("task")
    if prepared is not None and task in TASKS and prepared != task:
        raise UserError(f"task={task}, but {folder} was prepared as {prepared}; change task or task.data")


def check_task_examples(folder: Path, splits: Splits) -> None:
    """Read all of the folder, and raise for what would stop fairseq in the middle of the training.

    Raises:
        UserError: naming the split with an id that is not in its dictionary, or an example without a class.
    """
    data = read_task(folder)
    for split in splits.all:
        try:
            data.require(split)
        except UserError as error:
            raise UserError(f"task.data: {error}") from None


def example_lengths(folder: Path, split: str, task: DictConfig) -> np.ndarray:
    """Tokens in each example of a split, as fairseq's sentence_prediction joins its texts.

    Raises:
        UserError: the split cannot be read.
    """
    before = (task.init_token, task.separator_token)  # each text
    texts = [
        open_dataset(folder / text / split).sizes + (token is not None)
        for text, token in zip(text_folders(folder), before, strict=False)
    ]
    return np.sum(texts, axis=0)


def check_lengths(folder: Path, config: DictConfig, n: int) -> None:
    """Raise for examples that are longer than the model or a batch takes, unless fairseq shall shorten or skip them,
    and for a limit that leaves examples out of a batch.

    Args:
        folder: of a task.
        config: of its finetuning.
        n: maximum length.

    Raises:
        UserError: with the length of the longest example, and how to prepare the task again.
    """
    skips = config.dataset.skip_invalid_size_inputs_valid_test
    for split in Splits.of(config.dataset).all:
        prefix = folder / "input0" / split
        sizes = example_lengths(folder, split, config.task)
        if _shortens(config.task, split):
            sizes = np.minimum(sizes, n)
        if (longest := int(sizes.max())) > n and not skips:
            raise UserError(
                f"task.data: {prefix}: {int((sizes > n).sum()):,} examples are longer than n = {n}, "
                f"the longest has {longest:,} tokens; prepare the task again with --max-positions {n}"
            )
        if split != config.dataset.train_subset or not skips:
            _require_room(config.dataset, split, prefix, sizes[sizes <= n])
        if split == config.dataset.train_subset:
            _require_full_batches(config.dataset, min(longest, n))


def check_sentences(folder: Path, config: DictConfig) -> None:
    """Raise for a validation of sentences or paragraphs that are longer than the model or a batch takes: fairseq would
    stop there.

    Those of the training data are skipped with a warning. Blocks of ``sample_break_mode=none`` are never longer.

    Args:
        folder: of data for pretraining.
        config: of the run, with a model.

    Raises:
        UserError: with the length of the longest one, and what to set.
    """
    task = config.task
    if task.get("sample_break_mode") in (None, "none"):
        return
    limits = {"n": config.model.get("max_positions"), "task.tokens_per_sample": task.tokens_per_sample}
    name, n = min(((name, limit) for name, limit in limits.items() if limit), key=lambda one: one[1])
    for split in Splits.of(config.dataset).valid:
        sizes = open_dataset(folder / split).sizes
        if _shortens(task, split):
            sizes = np.minimum(sizes, task.tokens_per_sample)
        sizes = sizes + 1  # <s>
        if (longest := int(sizes.max())) > n and not config.dataset.skip_invalid_size_inputs_valid_test:
            raise UserError(
                f"task.data: {folder / split}: the longest line has {longest:,} tokens, more than {name} = {n}; leave "
                "such lines out with dataset.skip_invalid_size_inputs_valid_test=true"
            )
        _require_room(config.dataset, split, folder / split, sizes[sizes <= n])


def _shortens(task: DictConfig, split: str) -> bool:
    """Whether fairseq shortens the texts of a split."""
    splits = task.get("shorten_data_split_list") or ""
    return task.get("shorten_method") not in (None, "none") and (not splits or split in splits.split(","))


def _require_room(dataset: DictConfig, split: str, prefix: Path, sizes: np.ndarray) -> None:
    """Raise if an example of these sizes is larger than a batch: fairseq leaves it out of the training, and stops at it
    in the validation."""
    option = "max_tokens" if split == dataset.train_subset else "max_tokens_valid"
    tokens = dataset.get(option)
    if tokens is not None and (longest := int(sizes.max(initial=0))) > tokens:
        raise UserError(
            f"dataset.{option}={tokens}, but the longest example of {prefix} has {longest:,} tokens; give at least that"
        )


def _require_full_batches(dataset: DictConfig, longest: int) -> None:
    """Raise if max_tokens makes batches of a training smaller than update_freq is computed from."""
    examples, tokens = dataset.get("batch_size"), dataset.get("max_tokens")
    if examples is not None and tokens is not None and tokens < examples * longest:
        raise UserError(
            f"dataset.max_tokens={tokens}, but a batch has {examples} examples of up to {longest:,} tokens "
            "(dataset.batch_size), so updates would be smaller than run.sentences_per_update; leave it out, and lower "
            "dataset.batch_size instead"
        )


def _shards_of(folder: Path, split: str) -> list[str]:
    """The folders of the shards that `linformer data binarize --shards` made there."""
    if idx_of(folder / split).is_file():
        return []
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    return [str(folder / str(number)) for number in numbers if idx_of(folder / str(number) / split).is_file()]


def _require_folder(folder: Path, hint: str) -> None:
    if not folder.is_dir():
        raise UserError(f"task.data: {folder}: no such folder; {hint}")


def _require(path: Path, hint: str) -> None:
    if not path.is_file():
        raise UserError(f"task.data: {path}: no such file; {hint}")


def _require_split(folder: Path, name: str, splits: Splits, hint: str) -> None:
    prefix = folder / name
    idx, binary = idx_of(prefix), bin_of(prefix)
    if not idx.is_file():
        option = f"dataset.{'train' if name == splits.train else 'valid'}_subset"
        there = ", ".join(sorted(path.stem for path in folder.glob("*.idx")))
        if name not in _USUAL.all:  # the user's choice
            raise UserError(f"{option}={name}: {folder} has no such split; it has: {there or 'none'}")
        if there:
            hint += f"; or choose one of the splits that are there with {option}=NAME: {there}"
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
