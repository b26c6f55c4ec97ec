"""Models with a masked-language-model head: token ids and masked positions to logits (M, V) of those positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.models.blocks import SharedLayer
from benchmarks.efficiency.models.build import build
from benchmarks.efficiency.models.registry import FAIRSEQ, MODELS
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import LinformerEncoderLayer


class WithHead(nn.Module):
    """An encoder in plain torch with RoBERTa's head, tied to the token embeddings."""

    def __init__(self, encoder: Any, width: int, vocabulary: int) -> None:
        super().__init__()
        self.encoder: Any = encoder
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """(B, T) and bool (B, T) to (M, V)."""
        features = self.norm(F.gelu(self.dense(self.encoder(tokens)[masked])))
        return F.linear(features, self.encoder.embeddings.tokens.weight, self.bias)


class OfFairseq(nn.Module):
    """A complete fairseq model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """(B, T) and bool (B, T) to (M, V)."""
        logits: Tensor = self.model(tokens, masked_tokens=masked)[0]
        return logits


def build_trainable(
    name: str, sizes: Sizes, n: int, k: int | None, dropout: float, device: torch.device
) -> WithHead | OfFairseq:
    """Build a trainable model of MODELS, in training mode, with float32 weights.

    Args:
        name, sizes, n, k, device: as in `build.build`.
        dropout: of the embeddings, of the outputs of attention and feed-forward network, and of the attention
            probabilities, as in fairseq's RoBERTa.
    """
    torch.manual_seed(0)
    if MODELS[name].needs == FAIRSEQ:
        from benchmarks.efficiency.models import fairseq_own, ours

        if k is None:
            model = fairseq_own.full_model(sizes, n, dropout)
        else:
            known = MODELS[name]
            model = ours.full_model(sizes, n, k, known.compiled, known.recomputes, dropout, known.projection)
        return OfFairseq(model).to(device).train()
    encoder: Any = build(name, sizes, n, k, torch.float32, torch.device("cpu"))
    for embedding in (encoder.embeddings.tokens, encoder.embeddings.positions):
        nn.init.normal_(embedding.weight, std=0.02)
    if dropout:
        _set_dropout(encoder, dropout)
    return WithHead(encoder, sizes.width, sizes.vocabulary).to(device).train()


def _set_dropout(encoder: Any, dropout: float) -> None:
    """Add RoBERTa's dropout to a model in plain torch, which is built without dropout."""
    encoder.embeddings.norm = nn.Sequential(encoder.embeddings.norm, nn.Dropout(dropout))
    for layer in encoder.layers:
        if isinstance(layer, LinformerEncoderLayer):
            layer.dropout_module = nn.Dropout(dropout)  # type: ignore[assignment]
            layer.self_attn.settings = replace(layer.self_attn.settings, attention_dropout=dropout)
        elif isinstance(layer, SharedLayer):
            layer.dropout_module = nn.Dropout(dropout)
            layer.self_attn.dropout = dropout  # type: ignore[assignment]
        else:
            layer.attention.dropout = dropout
            layer.attention.out_proj = nn.Sequential(layer.attention.out_proj, nn.Dropout(dropout))
            layer.fc2 = nn.Sequential(layer.fc2, nn.Dropout(dropout))


def vocabulary_of(model: WithHead | OfFairseq) -> int:
    """Number of rows of the token embeddings of a model from `build_trainable`."""
    if isinstance(model, OfFairseq):
        return int(model.model.encoder.sentence_encoder.embed_tokens.weight.size(0))
    return int(model.encoder.embeddings.tokens.weight.size(0))
