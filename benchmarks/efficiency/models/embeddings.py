"""An encoder in plain torch, with RoBERTa's embeddings."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.files.dictionary import PAD


class Embeddings(nn.Module):
    """Learned token and position embeddings, and a layer norm."""

    def __init__(self, sizes: Sizes, n: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width, padding_idx=PAD)
        self.positions = nn.Embedding(n, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        positions = self.positions(torch.arange(tokens.size(1), device=tokens.device))
        embedded: Tensor = self.norm(self.tokens(tokens) + positions)
        return embedded


def padding_of(tokens: Tensor) -> Tensor | None:
    """Bool (B, T), True at padding; None if there is none.

    On a GPU, the test synchronizes the host with the device. For n x n attention this pays off, since torch's flash
    attention does not support a mask.
    """
    padding = tokens.eq(PAD)
    return padding if bool(padding.any()) else None


def padding_without_waiting(tokens: Tensor) -> Tensor | None:
    """The same, but on a GPU it always returns the mask, as our fairseq model does."""
    return padding_of(tokens) if tokens.device.type == "cpu" else tokens.eq(PAD)


class Encoder(nn.Module):
    """Embeddings and layers: token ids (B, T) to features (B, T, C).

    Args:
        sizes, n: of the embeddings.
        layers: each takes features and the padding mask; they are built after the embeddings.
    """

    def __init__(self, sizes: Sizes, n: int, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes, n)
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        padding, x = padding_of(tokens), self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x, padding)
        return x
