"""Initialization with which half of the heads attend to neighbouring positions.

Masked words are predicted mostly from neighbouring words. With RoBERTa's small random weights, attention is nearly
uniform, and a model learns word frequencies long before it learns to attend to neighbours. Here, position embeddings
are initialized to sinusoids (Vaswani et al. 2017, section 3.5, with wavelengths up to 30 times the shortest), which are
similar for nearby positions, and W_k = W_q turns this similarity into attention scores, as in the mimetic
initialization of Trockman and Kolter (2023). All of these weights are trained.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from linformer_fairseq.core import LinformerSelfAttention

ATTENTION_STARTS = ("random", "neighbours")

_LONGEST = 30.0
"""Ratio of the longest wavelength to the shortest, which is 2 pi positions."""
_TOKENS = 0.02
"""Standard deviation of token embeddings, as in RoBERTa. A layer norm follows, so that before the first update only the
ratio to the position embeddings matters; but Adam changes smaller embeddings faster in proportion."""
_AMPLITUDE = 0.04
"""Of the position embeddings, whose mean square is then twice that of the token embeddings."""
_SCORE = 22.6
"""Score of a position with itself, before the softmax, for a layer input of variance one."""


@torch.no_grad()
def look_at_neighbours(
    tokens: nn.Embedding, positions: nn.Embedding, attentions: list[LinformerSelfAttention], first: int
) -> None:
    """Initializes position embeddings, the scale of token embeddings, and W_q = W_k of the first half of all heads.

    The other heads keep RoBERTa's initialization. The first token of a sequence gets a zero query in the first half of
    the heads, and so uniform attention: classification heads use its features of the whole text, which masked language
    modelling does not train.

    Args:
        tokens: token embeddings of width C.
        positions: learned position embeddings of width C; rows of padding stay zero.
        attentions: the attention of all layers.
        first: index of the token that begins a sequence.
    """
    padding = positions.padding_idx
    assert padding is not None
    positions.weight.copy_(_sinusoids(*positions.weight.shape) * _AMPLITUDE)
    positions.weight[padding : padding + 2] = 0.0  # the second row is position 0
    tokens.weight.mul_(_TOKENS / tokens.weight.std())
    beginning = tokens.weight[first] - tokens.weight[first].mean()  # as after a layer norm
    beginning = beginning / beginning.norm()
    for attention in attentions:
        query, key = attention.q_proj, attention.k_proj
        # A score is a sum of D products, divided by sqrt(D). With equal vectors of variance C s^2: sqrt(D) C s^2.
        depth = attention.settings.head_dim
        local = query.weight[: depth * math.ceil(attention.settings.num_heads / 2)]
        nn.init.normal_(local, std=math.sqrt(_SCORE / (math.sqrt(depth) * query.in_features)))
        local.sub_(torch.outer(local @ beginning, beginning))
        key.weight[: len(local)] = local


def _sinusoids(count: int, width: int) -> Tensor:
    """(count, width): sines and cosines whose frequencies fall geometrically from 1 to 1/30 per position."""
    frequencies = _LONGEST ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
