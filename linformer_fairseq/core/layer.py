"""A Linformer layer: attention and feed-forward network, each with its residual connection and layer norm.

Once keys and values are projected, every position is worked on by itself. Where no gradients are wanted, the rest of
the layer therefore runs in blocks of positions that stay in the processor's cache: memory holds the layer's input, its
output (in the place of the input, if the caller has no more use for that) and one block, however wide the feed-forward
network is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import LinformerSelfAttention, ProjectedSequence
from .projection import Projection
from .settings import LinformerSettings

_CACHED_BYTES = 4096
"""Of one channel in a block on a CPU, so that its activations fit the caches: 2,048 positions of bfloat16, 1,024 of
float32 (see benchmarks/NOTES.md)."""
_LARGE_BLOCK = 65536
"""Positions of a block elsewhere: enough to fill the device; blocks only bound the memory of very long inputs."""

Map = Callable[[Tensor], Tensor]


class LayerParts(Protocol):
    """What a layer is made of; the names are fairseq's, so that its layer has these parts too."""

    self_attn: LinformerSelfAttention
    self_attn_layer_norm: Map
    fc1: Map
    fc2: Map
    final_layer_norm: Map
    activation_fn: Map
    dropout_module: Map
    activation_dropout_module: Map
    normalize_before: bool


def encoder_layer(parts: LayerParts, x: Tensor, padding: Tensor | None, overwrite: bool = False) -> Tensor:
    """The layer's output, (B, T, C).

    Args:
        parts: of the layer.
        x: (B, T, C).
        padding: bool (B, T), True at padding; None for none. Outputs there have no meaning.
        overwrite: ``x`` may become the output, where no gradients are wanted.

    Raises:
        ValueError: T is more than ``max_positions``, or the shapes do not fit.
    """
    source = parts.self_attn_layer_norm(x) if parts.normalize_before else x
    projected = parts.self_attn.project(source, padding)
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return _positions(parts, x, source, projected)
    blocks = list(_blocks(x))
    if len(blocks) == 1:
        return _positions(parts, x, source, projected)
    out = x if overwrite else None
    for block in blocks:
        done = _positions(parts, x[block], source[block], projected.part(block[0]))
        if out is None or out.dtype != done.dtype:  # by autocast; seen at the first block
            out = done.new_empty(x.shape)
        out[block] = done
    assert out is not None
    return out


def _positions(parts: LayerParts, x: Tensor, source: Tensor, projected: ProjectedSequence) -> Tensor:
    """All but the projection, for any positions (B, t, C); ``source`` is what the attention sees of them."""
    x = x + parts.dropout_module(parts.self_attn.attend(source, projected))
    if not parts.normalize_before:
        x = parts.self_attn_layer_norm(x)
    hidden = parts.final_layer_norm(x) if parts.normalize_before else x
    hidden = parts.activation_dropout_module(parts.activation_fn(parts.fc1(hidden)))
    x = x + parts.dropout_module(parts.fc2(hidden))
    return x if parts.normalize_before else parts.final_layer_norm(x)


def _block_size(x: Tensor) -> int:
    return _CACHED_BYTES // x.element_size() if x.device.type == "cpu" else _LARGE_BLOCK


def _blocks(x: Tensor) -> Iterator[tuple[slice, slice]]:
    """Sequences and positions of each block: several sequences, or a part of one."""
    batch, length, _ = x.shape
    size = _block_size(x)
    sequences = max(1, size // length)
    for first in range(0, batch, sequences):
        for start in range(0, length, size):
            yield slice(first, first + sequences), slice(start, start + size)


class LinformerEncoderLayer(nn.Module, LayerParts):
    """`encoder_layer` with parts of torch alone: post-norm, GELU, no dropout but the attention's.

    Args:
        settings, layer, shared: as in `LinformerSelfAttention`.
        ffn_dim: width of the feed-forward network.
    """

    normalize_before = False

    def __init__(self, settings: LinformerSettings, layer: int, shared: Projection | None, ffn_dim: int) -> None:
        super().__init__()
        width = settings.embed_dim
        self.self_attn = LinformerSelfAttention(settings, layer, shared)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.activation_fn = F.gelu
        self.dropout_module = nn.Identity()
        self.activation_dropout_module = nn.Identity()

    def forward(self, x: Tensor, padding: Tensor | None = None, overwrite: bool = False) -> Tensor:
        """As `encoder_layer`: (B, T, C) and bool (B, T) to (B, T, C)."""
        return encoder_layer(self, x, padding, overwrite)
