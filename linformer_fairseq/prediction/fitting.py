"""How an input that is too long is made to fit: truncated, or divided into windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linformer_fairseq.files.cutting import Ids, positions, shorten, smallest
from linformer_fairseq.files.dictionary import EOS


class Frame(NamedTuple):
    """The special tokens of an input besides the </s> after each text; None: no such token."""

    init: int | None
    """Before the first text."""
    separator: int | None
    """Before the second text."""


class Fitted(NamedTuple):
    """An input as the model gets it."""

    rows: list[Ids]
    """The input, (T,) with T up to the limit, or its windows."""
    long: bool
    """Whether the whole input has more tokens than that."""


def fit(texts: Sequence[Ids], frame: Frame, limit: int, long: str) -> Fitted:
    """Make an input of one or two texts fit into ``limit`` positions.

    Args:
        texts: tokens of each text, without special tokens.
        frame: the special tokens.
        limit: the most positions; of a model, n or less.
        long: one of `files.cuts.CUTS`. Of a pair, the longer text is truncated first, as in `linformer data task`.
            Windows have the length of a truncated text (see `files.cutting.windows`).

    Raises:
        ValueError: ``limit`` leaves no room for a token of each text.
    """
    if limit < (least := smallest(len(texts))):
        raise ValueError(f"inputs of {limit} tokens have no room for a text, which needs at least {least}")
    if positions([len(text) for text in texts]) <= limit:
        return Fitted([_framed(texts, frame)], False)
    return Fitted([_framed(parts, frame) for parts in shorten(texts, limit, long)], True)


def _framed(texts: Sequence[Ids], frame: Frame) -> Ids:
    parts: list[Ids | list[int]] = []
    for special, text in zip((frame.init, frame.separator), texts, strict=False):
        parts += [[] if special is None else [special], text, [EOS]]
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
