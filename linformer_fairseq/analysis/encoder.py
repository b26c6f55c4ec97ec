"""What is analysed: an encoder that shows the attention of each layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError


class Heads(NamedTuple):
    """What the heads of a layer compute from; all (B, H, T, D)."""

    query: Tensor
    key: Tensor
    """Of all positions, before any projection to k rows."""
    value: Tensor
    """Of all positions, as ``key``."""
    output: Tensor
    """P V of each head, before W^O; of a Linformer, P-bar F V."""


class Rows(NamedTuple):
    """What the projected keys of a head are made of."""

    weights: Tensor
    """E (R, T): the weight of each token in each projected row. The mean over the features, where these have their own
    weights; for max pooling, the share of the features that are the token's."""
    window: int | None
    """Row i is made of tokens i * window to (i + 1) * window - 1, and with ``kernel_strides`` S above 1 of (S - 1) / 2
    windows on each side; None: of all."""


class Attention(NamedTuple):
    """The attention of one layer for one batch."""

    probabilities: Tensor
    """P (B, H, T, T), or P-bar (B, H, T, k) of a Linformer; 0 for rows beyond the k of a head."""
    heads: Callable[[], Heads]
    """Computes the rest where it is needed."""
    rows: Callable[[], list[Rows]] | None
    """Likewise E of each head, for the first input of the batch; None: P has a column for each position."""

    def check(self, layer: int) -> None:
        """Refuse P of broken weights.

        Args:
            layer: its index, from 0, for the message.

        Raises:
            UserError: P is not finite.
        """
        if not bool(self.probabilities.isfinite().all()):
            raise UserError(f"P of layer {layer} is not finite; are the weights of the model?")


See = Callable[[int, Attention], None]
"""Is given the index of a layer, from 0, and its attention."""


class Encoder(ABC):
    """A pretrained or finetuned encoder, without dropout."""

    kind: str
    """What it is, for people."""
    is_dense: bool
    """Whether P has a column for each position."""
    projection: str | None = None
    """The kind of projection; None if there is none."""
    sharing: str | None = None
    """Which heads and layers have the same E and F; None if there are none."""
    max_positions: int
    """n, the longest input, special tokens included."""
    layers: int
    heads: int
    """Number of heads of a layer."""
    first: int
    """Token at the beginning of every input."""
    last: int
    """Token at the end of every text."""

    def described(self) -> dict[str, Any]:
        """What a record of any analysis says of the encoder."""
        return {name: getattr(self, name) for name in ("kind", "is_dense", "max_positions", "layers", "heads")}

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Token ids of a text (T,), without special tokens."""

    @abstractmethod
    def encode_masked(self, text: str) -> Ids:
        """The same of a text in which the name of the mask is the mask."""

    @abstractmethod
    def token(self, symbol: int) -> str:
        """A token as text, with the space before it; special tokens by their names, bytes that are a part of a
        character as in Python."""

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
