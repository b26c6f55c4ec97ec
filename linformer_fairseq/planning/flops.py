"""Operations of a forward and a backward pass, by formula.

Matrix products are counted, a multiplication with its addition as 2, as torch.utils.flop_counter does; what works
element by element (softmax, norms, activations, pooling, the depthwise convolution) is left out. Letters as in `core`:
T positions of a sequence, k projected rows, C width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from linformer_fairseq.core import LinformerSettings
from linformer_fairseq.planning.sizes import Sizes


@dataclass(frozen=True)
class Flops:
    """Operations for one sequence."""

    layers: float
    """Forward pass of all encoder layers."""
    outside: float
    """Forward pass of the rest: the masked-language-model or classification head."""
    frozen: float
    """The part of ``layers`` whose factor is a frozen E or F, for which the backward pass computes no gradient."""
    recomputed: float
    """What activation checkpointing computes once more in the backward pass."""

    @property
    def forward(self) -> float:
        """A forward pass."""
        return self.layers + self.outside

    @property
    def training(self) -> float:
        """A forward and a backward pass: each product has two more, one for the gradient of each factor."""
        return 3 * self.forward - self.frozen + self.recomputed


def flops_of(sizes: Sizes, length: float, masked: float) -> Flops:
    """Operations for a sequence of ``length`` positions.

    Args:
        sizes: of the model.
        length: T; a mean of several is rounded up where the projection has windows of positions.
        masked: positions that the masked-language-model head sees; of no account to a classification head.
    """
    c, layers = sizes.width, sizes.layers
    if sizes.settings is None:
        attention, projecting = layers * (4 * length * c * c + 2 * length * length * c), 0.0
    else:
        by_layer = [_linformer(sizes.settings, layer, length) for layer in range(layers)]
        projecting = sum(part for _, part in by_layer)
        attention = sum(rest for rest, _ in by_layer) + projecting
    ffn = layers * 2 * length * c * sizes.ffn
    # LayerDrop leaves out each layer with this probability.
    share = 2.0 * (1 - sizes.options.encoder_layerdrop)
    # A classification head sees the first position alone.
    outside = float(c * c + c * sizes.classes) if sizes.classes else masked * (c * c + c * sizes.vocabulary)
    if sizes.options.quant_noise_pq > 0:
        outside += length * c * c  # a linear map of the embeddings, which fairseq adds then
    frozen = share * projecting if sizes.frozen else 0.0
    whole = share * (attention + ffn)
    recomputed = whole if getattr(sizes.options, "checkpoint_activations", False) else 0.0
    return Flops(whole, 2.0 * outside, frozen, recomputed)


def _linformer(settings: LinformerSettings, layer: int, length: float) -> tuple[float, float]:
    """Multiplications in a layer's attention without, and in, the products with E and F: see core/attention.py."""
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
    return 2 * length * c * c + keys_values + 2 * length * max(rows) * c, projecting


def _rows(settings: LinformerSettings, k: int, length: float) -> int:
    """Rows that ``length`` positions become."""
    if settings.projection == "linear":
        return k
    return math.ceil(length / math.ceil(settings.max_positions / k))
