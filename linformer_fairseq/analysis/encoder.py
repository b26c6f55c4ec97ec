"""What is analysed: an encoder that shows the attention of each layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from linformer_fairseq.files.cutting import Ids


class Heads(NamedTuple):
    """What the heads of a layer compute from; all (B, H, T, D)."""

    query: Tensor
    key: Tensor
    """Of all positions, before any projection to k rows."""
    value: Tensor
    """Likewise."""
    output: Tensor
    """P V of each head, before W^O; of a Linformer, P-bar F V."""


class Attention(NamedTuple):
    """The attention of one layer for one batch."""

    probabilities: Tensor
    """P (B, H, T, T), or P-bar (B, H, T, k) of a Linformer."""
    heads: Callable[[], Heads]
    """Computes the rest where it is needed."""


See = Callable[[int, Attention], None]
"""Is given the index of a layer, from 0, and its attention."""


class Encoder(ABC):
    """A pretrained or finetuned encoder, without dropout."""

    kind: str
    """What it is, for people."""
    is_dense: bool
    """Whether P has a column for each position."""
    max_positions: int
    """n, the longest input, special tokens included."""
    layers: int
    heads: int
    """Of each layer."""
    first: int
    """Token at the beginning of every input."""
    last: int
    """Token at the end of every text."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Token ids of a text (T,), without special tokens."""

    @abstractmethod
    def attend(self, tokens: Tensor, see: See) -> None:
        """Compute a batch; each layer's attention is seen, and forgotten before the next is computed.

        Args:
            tokens: (B, T) with T up to n, without padding.
            see: called for each layer, in order.
        """

    @abstractmethod
    def untrained(self, seed: int) -> Encoder:
        """The same encoder as it is before any training, on the same device."""
