"""Weights with which attention looks at neighbouring positions from the first update on.

Masked words are told by the words around them, but RoBERTa's small random weights give uniform attention, and nothing
in the text's average tells a position where its neighbours are: a model learns the frequencies of words long before it
finds out. Sinusoids as the first position embeddings (Vaswani et al. 2017, section 3.5, with waves
of up to 30 times the shortest) are alike where positions are near. W_k = W_q makes scores of that likeness, as in the
mimetic start of Trockman and Kolter (2023). All of it is learned further like any weight.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from linformer_fairseq.core import LinformerSelfAttention

ATTENTION_STARTS = ("random", "neighbours")

_LONGEST = 30.0
"""The longest wave, in lengths of the shortest, which is 2 pi positions."""
_AMPLITUDE = 0.2
_TOKENS = 0.1
"""Standard deviation of token embeddings: as layers add to them, 0.02 would soon be lost beside the positions."""
_SCORE = 22.6
"""Score of a position with itself, before the softmax, where the layer's input has a variance of one."""


@torch.no_grad()
def look_at_neighbours(
    tokens: nn.Embedding, positions: nn.Embedding, attentions: list[LinformerSelfAttention], first: int
) -> None:
    """Set position embeddings, the scale of token embeddings, and W_q = W_k of the first half of all heads.

    The other heads keep RoBERTa's start, and see the text as a whole.

    Classification heads read what the first token gathers from the whole text, and nothing in masked-language
    modelling teaches it to. Its query starts at zero: it looks at all positions alike.

    Args:
        tokens, positions: embeddings of width C, the latter learned; rows of padding stay zero.
        attentions: of all layers.
        first: the token that begins a sequence.
    """
    padding = positions.padding_idx
    assert padding is not None
    positions.weight.copy_(_sinusoids(*positions.weight.shape) * _AMPLITUDE)
    positions.weight[padding : padding + 2] = 0.0  # position 0 comes next
    tokens.weight.mul_(_TOKENS / tokens.weight.std())
    beginning = tokens.weight[first] - tokens.weight[first].mean()  # as a layer norm leaves it
    beginning = beginning / beginning.norm()
    for attention in attentions:
        query, key = attention.q_proj, attention.k_proj
        # A score is a sum of D products, each of variance C s^2, by sqrt(D): sqrt(D) C s^2 with equal vectors.
        depth = attention.settings.head_dim
        local = query.weight[: depth * math.ceil(attention.settings.num_heads / 2)]
        nn.init.normal_(local, std=math.sqrt(_SCORE / (math.sqrt(depth) * query.in_features)))
        local.sub_(torch.outer(local @ beginning, beginning))
        key.weight[: len(local)] = local


def _sinusoids(count: int, width: int) -> Tensor:
    """(count, width): sines and cosines whose frequencies fall geometrically from 1 to 1/30 a position."""
    frequencies = _LONGEST ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
