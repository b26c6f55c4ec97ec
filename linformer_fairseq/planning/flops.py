"""Operations of a forward and a backward pass, by formula.

A multiplication with its addition is 2; what is counted, `core.flops` says. Letters as in `core`: T positions of a
sequence, k projected rows, C width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linformer_fairseq.core.flops import feed_forward, full_attention, linformer_attention
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
        attention, projecting, once = layers * full_attention(c, length), 0.0, 0.0
    else:
        by_layer = [linformer_attention(sizes.settings, layer, length) for layer in range(layers)]
        projecting = sum(products.projecting for products in by_layer)
        attention = sum(products.total for products in by_layer)
        # Offloaded layers are fairseq's to compute again, as a whole.
        once = 0.0 if sizes.options.offload_activations else sum(products.once for products in by_layer)
    ffn = layers * feed_forward(c, sizes.ffn, length)
    # LayerDrop leaves out each layer with this probability.
    share = 2.0 * (1 - sizes.options.encoder_layerdrop)
    # A classification head sees the first position alone.
    outside = float(c * c + c * sizes.classes) if sizes.classes else masked * (c * c + c * sizes.vocabulary)
    if sizes.options.quant_noise_pq > 0:
        outside += length * c * c  # a linear map of the embeddings, which fairseq adds then
    frozen = share * projecting if sizes.frozen else 0.0
    whole = share * (attention + ffn)
    recomputed = whole - share * once if _recomputes(sizes.options) else 0.0
    return Flops(whole, 2.0 * outside, frozen, recomputed)


def _recomputes(options: Any) -> bool:
    return bool(getattr(options, "checkpoint_activations", False) or getattr(options, "offload_activations", False))
