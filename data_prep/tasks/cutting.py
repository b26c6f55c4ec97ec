"""Making an example fit into the positions of a model.

What the model sees is ``<s> text </s>``, or ``<s> text </s> </s> text </s>`` for a pair: fairseq's
sentence_prediction adds ``<s>`` (``--init-token 0``) and the second ``</s>`` (``--separator-token 2``).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

CUTS = ("head", "tail", "head+tail")
_ADDED = {1: 2, 2: 4}
"""Special tokens by number of texts."""


def positions(lengths: Sequence[int]) -> int:
    """How many positions texts of these many tokens take."""
    return sum(lengths) + _ADDED[len(lengths)]


def smallest(texts: int) -> int:
    """The fewest positions that leave a token of each text."""
    return _ADDED[texts] + texts


def shares(lengths: Sequence[int], limit: int) -> list[int]:
    """How many tokens of each text stay so that all fit into ``limit`` positions: the longer text gives first."""
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
    """The ``keep`` tokens of a text that stay.

    ``head+tail`` keeps the first quarter and the last three quarters: 128 and 382 of 510, the shares that did
    best on long texts in Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", arXiv:1905.05583.
    """
    if len(ids) <= keep:
        return ids
    front = {"head": keep, "tail": 0, "head+tail": keep * 128 // 510}[how]
    return np.concatenate([ids[:front], ids[len(ids) - (keep - front) :]])
