"""FLOPs of a forward and a backward pass, by formula.

A multiply-add counts as 2; see `core.flops` for what is counted. Notation as in `core`: T positions of a sequence, k
projected rows, C width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linformer_fairseq.core.flops import feed_forward, full_attention, linformer_attention
from linformer_fairseq.planning.sizes import Sizes


@dataclass(frozen=True)
class Flops:
    """FLOPs for one sequence."""

    layers: float
    """Forward pass of all encoder layers."""
    outside: float
    """Forward pass of the rest: the masked-language-model or classification head."""
    frozen: float
    """The part of ``layers`` that multiplies by a frozen E or F, for which no gradient is computed."""
    recomputed: float
    """The part that activation checkpointing recomputes in the backward pass."""

    @property
    def forward(self) -> float:
        """FLOPs of a forward pass."""
        return self.layers + self.outside

    @property
    def training(self) -> float:
        """FLOPs of a forward and a backward pass: the gradient of each product takes two more, one for each factor."""
        return 3 * self.forward - self.frozen + self.recomputed


def flops_of(sizes: Sizes, length: float, masked: float) -> Flops:
    """FLOPs for a sequence of ``length`` positions.

    Args:
        sizes: of the model.
        length: T; a mean is rounded up if the projection has windows of positions.
        masked: number of positions for the masked-language-model head; not used with a classification head.
    """
    c, layers = sizes.width, sizes.layers
    # Positions whose output the last layer computes.
    last = 1 if sizes.settings is not None and sizes.classes else length
    ffn = (layers - 1) * feed_forward(c, sizes.ffn, length) + feed_forward(c, sizes.ffn, last)
    if sizes.settings is None:
        attention, projecting, once = layers * full_attention(c, length), 0.0, 0.0
    else:
        by_layer = [linformer_attention(sizes.settings, layer, length) for layer in range(layers - 1)]
        by_layer.append(linformer_attention(sizes.settings, layers - 1, length, last))
        projecting = sum(products.projecting for products in by_layer)
        attention = sum(products.total for products in by_layer)
        once = sum(products.once for products in by_layer)
        if not sizes.options.compile_encoder:  # compiled code runs as a whole, with fc2
            once += ffn / 2
    # LayerDrop drops each layer with this probability.
    share = 2.0 * (1 - sizes.options.encoder_layerdrop)
    # A classification head uses only the first position.
    outside = float(c * c + c * sizes.classes) if sizes.classes else masked * (c * c + c * sizes.vocabulary)
    if sizes.options.quant_noise_pq > 0:
        outside += length * c * c  # fairseq then adds a linear layer after the embeddings
    frozen = share * projecting if sizes.frozen else 0.0
    whole = share * (attention + ffn)
    recomputed = whole - share * once if _recomputes(sizes.options) else 0.0
    return Flops(whole, 2.0 * outside, frozen, recomputed)


def _recomputes(options: Any) -> bool:
    return bool(getattr(options, "checkpoint_activations", False) or getattr(options, "offload_activations", False))
