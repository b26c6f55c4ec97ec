"""The sizes of a run's data, which determine its cost: symbols, tokens, lengths of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fairseq.data.token_block_utils_fast import _get_slice_indices_fast
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.files.dictionary import embedding_rows
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import bin_of, idx_of, open_dataset
from linformer_fairseq.launch.data import example_lengths
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.tasks import SENTENCE_PREDICTION

_SEPARATOR = 1
"""Tokens of the empty line between documents: </s>."""
ASSUMED_VOCABULARY = 50_265  # RoBERTa's: GPT-2's byte pairs, fairseq's special symbols and <mask>


@dataclass(frozen=True)
class Data:
    """Sizes of the training data; None if the data do not exist."""

    vocabulary: int
    """Rows of the model's token embedding: symbols, ``<mask>`` included."""
    vocabulary_source: str
    tokens: int | None
    """Tokens of the training split; those of a task as fairseq reads it: truncated to n, with separators."""
    sequences: int | None
    """Examples of a task, or blocks of whole lines; None if the text is cut into full blocks."""
    longest: int | None = None
    """Tokens of the longest of these."""
    problem: str | None = None
    """Why the tokens could not be counted."""


def data_of(config: DictConfig) -> Data:
    """Read the sizes from the folder of ``task.data`` (or folders, separated by colons)."""
    if OmegaConf.is_missing(config.task, "data"):
        return Data(ASSUMED_VOCABULARY, "RoBERTa's, assumed because no task.data is given", None, None)
    folders = [Path(part) for part in str(config.task.data).split(":")]
    classifies = config.task._name in SENTENCE_PREDICTION
    dictionary = folders[0] / ("input0/dict.txt" if classifies else "dict.txt")
    try:
        vocabulary = embedding_rows(dictionary, str(config.model.get("_name")).startswith(MODEL))
        source = str(dictionary)
    except UserError:
        vocabulary, source = ASSUMED_VOCABULARY, f"RoBERTa's, assumed because {dictionary} cannot be read"
    split = str(config.dataset.train_subset)
    first = folders[0] / ("input0" if classifies else "") / split
    if not idx_of(first).exists() and not bin_of(first).exists():
        return Data(vocabulary, source, None, None)
    try:
        if classifies:
            lengths = np.minimum(example_lengths(folders[0], split, config.task), config.task.max_positions)
            return _sequences(vocabulary, source, lengths)
        if config.task.get("sample_break_mode") not in (None, "none"):
            lengths = np.concatenate([_blocks(open_dataset(folder / split).sizes, config.task) for folder in folders])
            return _sequences(vocabulary, source, lengths)
        tokens = sum(int(open_dataset(folder / split).sizes.sum(dtype=np.int64)) for folder in folders)
        return Data(vocabulary, source, tokens, None)
    except UserError as error:
        return Data(vocabulary, source, None, None, problem=str(error))


def _sequences(vocabulary: int, source: str, lengths: np.ndarray) -> Data:
    """The data of sequences with these numbers of tokens."""
    return Data(vocabulary, source, int(lengths.sum()), len(lengths), int(lengths.max(initial=0)))


def _blocks(lines: np.ndarray, task: DictConfig) -> np.ndarray:
    """Tokens in each block of whole lines with these tokens, as fairseq's masked_lm puts them together."""
    most = task.tokens_per_sample - 1  # one less for <s>
    try:
        ends = _get_slice_indices_fast(lines.astype(np.int64), str(task.sample_break_mode), most, _SEPARATOR)
    except ValueError:  # of no block, it cannot make an array
        raise UserError("the text has no document of more than one token, and so fairseq no block") from None
    tokens = ends[:, 1] - ends[:, 0]
    return tokens[tokens <= most] + 1  # fairseq skips the others: lines that are longer
