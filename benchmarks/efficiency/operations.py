"""Operations and least memory of a model, by formula.

A multiplication with its addition is two operations; `linformer_fairseq.core.flops` says what is counted. All
Linformers are given what one with layerwise sharing has to do, though some do more: rates tell how fast the useful
work is done.
"""

from __future__ import annotations

from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import LinformerSettings
from linformer_fairseq.core.flops import feed_forward, full_attention, linformer_attention


def forward(sizes: Sizes, length: int, k: int | None, n: int | None = None) -> float:
    """Operations of the layers for one sequence.

    Args:
        sizes: of the model.
        length: positions of the sequence, T.
        k: projected rows; None for n x n attention.
        n: positions that the model is built for, if more than T.
    """
    if k is None:
        attention = full_attention(sizes.width, length)
    else:
        settings = LinformerSettings(sizes.width, sizes.heads, sizes.layers, n or length, k)
        attention = linformer_attention(settings, 0, length).total
    return 2.0 * sizes.layers * (attention + feed_forward(sizes.width, sizes.ffn, length))


def head(sizes: Sizes, masked: float) -> float:
    """Operations of the masked-language-model head on that many positions."""
    return 2.0 * masked * (sizes.width**2 + sizes.width * sizes.vocabulary)


def training(sizes: Sizes, length: int, k: int | None, masked: float, n: int | None = None) -> float:
    """Operations of a forward and a backward pass for one sequence: two more products for each.

    Args:
        sizes, length, k, n: as in `forward`.
        masked: positions that the head sees.
    """
    return 3 * (forward(sizes, length, k, n) + head(sizes, masked))


def least_bytes(sizes: Sizes, n: int, k: int | None, stores: bool, batch: int, element: int) -> float:
    """What a forward pass of a batch cannot do without.

    Args:
        sizes, k: as above.
        n: positions of a sequence.
        stores: whether scores and their softmax are stored, for all heads.
        batch: sequences.
        element: bytes of a number.
    """
    numbers = 3 * n * sizes.width  # a layer's input, what becomes of it, and one of its parts
    if stores:
        numbers += 2 * sizes.heads * n * (n if k is None else k)
    return float(batch) * numbers * element
