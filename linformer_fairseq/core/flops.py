"""Multiplications of a layer's parts for one sequence, by formula.

Matrix products are counted, a multiplication with its addition once (two operations, as torch.utils.flop_counter has
it); what works element by element (softmax, norms, activations, pooling, the depthwise convolution) is left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .settings import LinformerSettings


class AttentionProducts(NamedTuple):
    """Multiplications in an attention."""

    projecting: float
    """In the products with E and F."""
    rest: float
    """In all others."""

    @property
    def total(self) -> float:
        """Both."""
        return self.projecting + self.rest


def linformer_attention(settings: LinformerSettings, layer: int, length: float) -> AttentionProducts:
    """Of a layer's `LinformerSelfAttention`, as it computes them.

    Args:
        settings: of the encoder.
        layer: its number, from 0.
        length: T; a mean of several is rounded up where the projection has windows of positions.
    """
    c, heads = settings.embed_dim, settings.num_heads
    rows = [_rows(settings, k, length) for k in settings.dims[layer]]
    projecting = 0.0
    if settings.projection == "linear":
        matrices = 2 if settings.sharing in ("none", "headwise") else 1
        projecting = matrices * length * sum(rows) * c / heads
    if settings.is_pooling and len(set(rows)) > 1:
        keys_values = 2 * c * c * sum(rows) / heads  # pooling with one k per head: each head's W_i on its own rows
    elif settings.sharing == "none" and not settings.is_pooling:
        keys_values = 2 * length * c * c  # E differs between heads, so W comes first and sees all positions
    else:
        keys_values = 2 * max(rows) * c * c
    # Heads with fewer rows are filled up to the most.
    return AttentionProducts(projecting, 2 * length * c * c + keys_values + 2 * length * max(rows) * c)


def full_attention(width: int, length: float) -> float:
    """Of an attention that looks at all positions: n x n."""
    return 4 * length * width * width + 2 * length * length * width


def feed_forward(width: int, ffn: int, length: float) -> float:
    """Of a feed-forward network."""
    return 2 * length * width * ffn


def _rows(settings: LinformerSettings, k: int, length: float) -> int:
    """Rows that ``length`` positions become."""
    if settings.projection == "linear":
        return k
    return math.ceil(length / math.ceil(settings.max_positions / k))
