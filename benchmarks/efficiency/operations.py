"""Operations and minimum memory of a model, by formula.

A multiply-add counts as two operations; `linformer_fairseq.core.flops` describes what is counted. Every Linformer is
counted with the operations of layerwise sharing, although some do more, so rates are those of the useful work.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.analysis import nystrom, performer
from linformer_fairseq.core import LinformerSettings
from linformer_fairseq.core.flops import feed_forward, full_attention, linformer_attention


def _performer(sizes: Sizes, n: int, k: int | None) -> float:
    assert k is not None
    return 4 * n * sizes.width**2 + performer.multiplications(n, k, sizes.width)


def _nystrom(sizes: Sizes, n: int, k: int | None) -> float:
    assert k is not None
    landmarks = math.ceil(n / math.ceil(n / k))
    maps = (4 * n + 2 * landmarks) * sizes.width**2
    return maps + nystrom.multiplications(n, landmarks, sizes.width, sizes.heads)


def _recurrent(sizes: Sizes, n: int, k: int | None) -> float:
    """Four gates of C / 2 for each direction, from the input (C) and the state (C / 2)."""
    half = sizes.width // 2
    return 2 * n * 4 * half * (sizes.width + half)


OTHERS: dict[str, Callable[[Sizes, int, int | None], float]] = {
    "performer": _performer,
    "nystrom": _nystrom,
    "recurrent": _recurrent,
}
"""Multiplications of what models have in place of a Linformer's or dense attention, by `Known.projection`."""


def forward(sizes: Sizes, n: int, k: int | None, projection: str = "linear") -> float:
    """Operations of the layers for one sequence of n positions, which may be fewer than the model's maximum.

    Args:
        sizes, n, k: of the model; n x n attention if k is None.
        projection: of a Linformer, or one of `OTHERS`.
    """
    if projection in OTHERS:
        attention = OTHERS[projection](sizes, n, k)
    elif k is None:
        attention = full_attention(sizes.width, n)
    else:
        at_most = k * math.ceil(max(n, k + 1) / k)  # positions of the model; an input may be much shorter
        settings = LinformerSettings(sizes.width, sizes.heads, sizes.layers, at_most, k, projection=projection)
        attention = linformer_attention(settings, 0, n).total
    return 2.0 * sizes.layers * (attention + feed_forward(sizes.width, sizes.ffn, n))


def head(sizes: Sizes, masked: float) -> float:
    """Operations of the masked-language-model head for ``masked`` positions."""
    return 2.0 * masked * (sizes.width**2 + sizes.width * sizes.vocabulary)


def training(sizes: Sizes, n: int, k: int | None, masked: float, projection: str = "linear") -> float:
    """Operations of a forward and a backward pass for one sequence; the backward pass takes twice as many."""
    return 3 * (forward(sizes, n, k, projection) + head(sizes, masked))


def least_bytes(sizes: Sizes, n: int, k: int | None, stores: bool, batch: int, element: int) -> float:
    """Bytes that a forward pass needs at least.

    Args:
        sizes, n, k: as above.
        stores: whether scores and their softmax are stored, for all heads.
        batch: sequences.
        element: bytes of an element.
    """
    numbers = 3 * n * sizes.width  # a layer's input, its output and one intermediate result
    if stores:
        numbers += 2 * sizes.heads * n * (n if k is None else k)
    return float(batch) * numbers * element
