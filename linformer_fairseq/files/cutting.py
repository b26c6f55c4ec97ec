"""Truncates examples to the maximum number of positions, or divides them into windows of that length.

The input of the model is ``<s> text </s>``, or ``<s> text </s> </s> text </s>`` for a pair: fairseq's
sentence_prediction adds ``<s>`` (``--init-token 0``) and the second ``</s>`` (``--separator-token 2``).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.cuts import WINDOWS

Ids = npt.NDArray[np.int64]

_ADDED = {1: 2, 2: 4}
"""Number of special tokens, by number of texts."""


def positions(lengths: Sequence[int]) -> int:
    """Number of positions of an example whose texts have these numbers of tokens."""
    return sum(lengths) + _ADDED[len(lengths)]


def smallest(texts: int) -> int:
    """The minimum number of positions that leaves one token of each text."""
    return _ADDED[texts] + texts


def shares(lengths: Sequence[int], limit: int) -> list[int]:
    """Number of tokens of each text that fit into ``limit`` positions; the longer text is truncated first."""
    room = limit - _ADDED[len(lengths)]
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    if first <= room // 2:
        return [first, room - first]
    if second <= room // 2:
        return [room - second, second]
    return [room - room // 2, room // 2]


def cut(ids: Ids, keep: int, how: str) -> Ids:
    """Truncate a text to ``keep`` tokens.

    ``head+tail`` keeps a quarter of them from the beginning and three quarters from the end: 128 and 382 of 510, the
    best shares for long texts in Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", arXiv:1905.05583.
    """
    if len(ids) <= keep:
        return ids
    front = {"head": keep, "tail": 0, "head+tail": keep * 128 // 510}[how]
    return np.concatenate([ids[:front], ids[len(ids) - (keep - front) :]])


def shorten(texts: Sequence[Ids], limit: int, how: str) -> list[list[Ids]]:
    """Make an example fit that takes more than ``limit`` positions: the texts of one or, of windows, several examples.

    Args:
        texts: tokens of its texts.
        limit: the maximum number of positions.
        how: one of `cuts.CUTS`.
    """
    keep = shares([len(text) for text in texts], limit)
    if how == WINDOWS:
        return list(windows(texts, keep))
    return [[cut(text, room, how) for text, room in zip(texts, keep, strict=True)]]


def windows(texts: Sequence[Ids], keep: Sequence[int]) -> Iterator[list[Ids]]:
    """Divide one text of an example into the fewest windows that cover it, with equal overlaps up to rounding.

    Args:
        texts: tokens of its texts.
        keep: tokens of each text in a window, from `shares`. Of a pair, the text of which more tokens do not fit is
            divided; the other is in every window, truncated at its end.

    Yields:
        the texts of each window.
    """
    divided = int(np.argmax([len(text) - room for text, room in zip(texts, keep, strict=True)]))
    parts = [cut(text, room, "head") for text, room in zip(texts, keep, strict=True)]
    length, size = len(texts[divided]), keep[divided]
    count = -(-length // size)
    for number in range(count):
        start = number * (length - size) // max(1, count - 1)
        yield [*parts[:divided], texts[divided][start : start + size], *parts[divided + 1 :]]
