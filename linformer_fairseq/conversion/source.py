"""A pretrained RoBERTa as the readers return it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from linformer_fairseq.files.weight_names import POSITIONS, TOKENS, UNUSED_POSITIONS


@dataclass(frozen=True)
class Source:
    """A RoBERTa's weights and options; the dictionary and the tokenizer are in a folder that the reader filled."""

    kind: str
    """Whose RoBERTa it is, for people."""
    path: Path
    """The folder or checkpoint that was read, for messages."""
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
