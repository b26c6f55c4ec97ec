"""A pretrained RoBERTa as the readers return it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

ENCODER = "encoder.sentence_encoder."
TOKENS = f"{ENCODER}embed_tokens.weight"
POSITIONS = f"{ENCODER}embed_positions.weight"
OUTPUT, OUTPUT_BIAS = "encoder.lm_head.weight", "encoder.lm_head.bias"
UNUSED_POSITIONS = 2
"""Rows of the position embeddings before that of the first token."""


@dataclass(frozen=True)
class Source:
    """A RoBERTa's weights and options; the dictionary and the tokenizer are in a folder that the reader filled."""

    kind: str
    """Whose RoBERTa it is, for people."""
    options: dict[str, Any]
    """Options of the model that RoBERTa and Linformer have in common, without ``max_positions``."""
    weights: dict[str, Tensor]
    """In float32, under the names of fairseq's state dict."""
    notes: tuple[str, ...]
    """What was left out or rearranged, a sentence each."""

    @property
    def max_positions(self) -> int:
        """n, the longest input."""
        return int(self.weights[POSITIONS].size(0)) - UNUSED_POSITIONS

    @property
    def symbols(self) -> int:
        """Number of symbols of the dictionary, fairseq's own included."""
        return int(self.weights[TOKENS].size(0))
