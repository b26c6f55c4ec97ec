"""Number of multiplications in the parts of a layer for one sequence, by formula.

Only matrix products are counted, with a multiply-add as one (torch.utils.flop_counter counts it as two operations).
Element-wise operations (softmax, norms, activations, pooling, the depthwise convolution) are not counted.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from .settings import LinformerSettings


class AttentionProducts(NamedTuple):
    """Multiplications in the attention of one layer."""

    projecting: float
    """Multiplications in the products with E and F."""
    rest: float
    """Multiplications in all other products."""
    once: float
    """The part of these in `project`, which recomputing activations does not repeat."""

    @property
    def total(self) -> float:
        """Multiplications in all products."""
        return self.projecting + self.rest


class Order(Enum):
    """The order of the products in the attention; every order computes the same function."""

    PROJECTION = "E X, then W on its k rows"
    MAPS = "W X on all T positions, then E"
    SCORES = "Q (W X)^T, T x T scores, then E on the scores; E_i K_i is never computed"


def cheapest_order(settings: LinformerSettings, dims: tuple[int, ...], length: int) -> Order:
    """The order with the fewest multiplications for T positions.

    With one E for all heads it is PROJECTION from about T = k on (0.92 k at base size and k = 128), MAPS below that
    and SCORES where T is below 2 k D / (k + D).

    Args:
        settings: of the encoder.
        dims: k of each head of the layer (not the layer's index, for which torch.compile would recompile).
        length: T.
    """
    return _cheapest(settings, dims, length)[0]


def linformer_attention(
    settings: LinformerSettings, layer: int, length: float, queries: float | None = None
) -> AttentionProducts:
    """Multiplications in a layer's `LinformerSelfAttention`, with the cheapest order of products.

    Args:
        settings: of the encoder.
        layer: its index, from 0.
        length: T. It may be the mean of several; projections with windows round up the number of rows.
        queries: number of positions whose output is computed; None: T.
    """
    dims = settings.dims[layer]
    order, products = _cheapest(settings, dims, length)
    return products if queries is None else orders_of(settings, dims, length, queries)[order]


def _cheapest(settings: LinformerSettings, dims: tuple[int, ...], length: float) -> tuple[Order, AttentionProducts]:
    found = list(orders_of(settings, dims, length).items())
    best = found[0]
    for one in found[1:]:  # torch.compile cannot trace `min` with a key
        if one[1].total < best[1].total:
            best = one
    return best


def orders_of(
    settings: LinformerSettings, dims: tuple[int, ...], length: float, queries: float | None = None
) -> dict[Order, AttentionProducts]:
    """The orders of products that are possible for a layer, and their multiplications; ``queries`` as in
    `linformer_attention`."""
    queries = length if queries is None else queries
    c, heads, depth = settings.embed_dim, settings.num_heads, settings.head_dim
    rows = [_rows(settings, k, length) for k in dims]
    most, together = max(rows), sum(rows)
    outer = 2 * queries * c * c  # queries and outputs
    attending = 2 * queries * most * c  # heads with fewer rows are padded to the largest number
    linear = settings.projection == "linear"
    found: dict[Order, AttentionProducts] = {}
    maps: float
    if settings.is_pooling:
        # Each head pools the whole X; heads with the same k share the rows.
        maps = 2 * c * (depth * together if len(set(rows)) > 1 else c * most)
        return {Order.PROJECTION: AttentionProducts(0, outer + maps + attending, maps)}
    if settings.sharing != "none":
        matrices = 2 if settings.sharing == "headwise" else 1
        projecting = matrices * length * most * c if linear else 0
        maps = 2 * most * c * c
        found[Order.PROJECTION] = AttentionProducts(projecting, outer + maps + attending, projecting + maps)
    if linear or settings.sharing == "none":
        projecting = 2 * length * together * depth if linear else 0
        maps = 2 * length * c * c
        found[Order.MAPS] = AttentionProducts(projecting, outer + maps + attending, projecting + maps)
    if linear and len(set(rows)) == 1:
        # The biases are one more row of keys and values.
        projecting = 2 * queries * (length + 1) * most * heads
        maps = 2 * length * c * c
        rest = outer + maps + 2 * queries * (length + 1) * c
        found[Order.SCORES] = AttentionProducts(projecting, rest, maps)
    return found


def full_attention(width: int, length: float) -> float:
    """Multiplications in full n x n attention."""
    return 4 * length * width * width + 2 * length * length * width


def feed_forward(width: int, ffn: int, length: float) -> float:
    """Multiplications in a feed-forward network."""
    return 2 * length * width * ffn


def _rows(settings: LinformerSettings, k: int, length: float) -> int:
    """Number of projected rows for ``length`` positions."""
    if settings.projection == "linear":
        return k
    longest = length if settings.short_inputs == "stretch" else settings.max_positions
    return math.ceil(length / math.ceil(longest / k))
