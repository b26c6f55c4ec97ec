"""For models of fairseq: a task and the options to build them with, and a module that returns their features."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from benchmarks.efficiency.sizes import Sizes

SPECIAL = 5
"""Symbols of every dictionary: <s>, <pad>, </s>, <unk> and <mask>."""


@lru_cache(maxsize=1)
def dictionary(symbols: int) -> Any:
    """A fairseq dictionary with that many symbols."""
    from fairseq.data import Dictionary

    made = Dictionary()
    for number in range(symbols - SPECIAL):
        made.add_symbol(f"s{number}")
    made.add_symbol("<mask>")
    return made


def encoder_options(sizes: Sizes, n: int, dropout: float) -> dict[str, Any]:
    """The sizes by the names of the options of fairseq's RoBERTa and ours."""
    return {
        "encoder_layers": sizes.layers,
        "encoder_embed_dim": sizes.width,
        "encoder_ffn_embed_dim": sizes.ffn,
        "encoder_attention_heads": sizes.heads,
        "dropout": dropout,
        "attention_dropout": dropout,
        "max_positions": n,
    }


class Task:
    """A minimal task for building a model."""

    cfg = None

    def __init__(self, symbols: int, n: int) -> None:
        self.source_dictionary = dictionary(symbols)
        self._n = n

    def max_positions(self) -> int:
        """n, the longest input."""
        return self._n


class Features(nn.Module):
    """Returns `extract_features` of a fairseq encoder, without an output layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        found = self.model.encoder.extract_features(tokens)
        features: Tensor = found[0] if isinstance(found, tuple) else found
        return features
