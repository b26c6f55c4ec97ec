"""A Linformer layer: attention and feed-forward network, each with its residual connection and layer norm.

After the projection of keys and values, positions do not depend on each other. In inference, the rest of the layer
therefore runs in blocks of positions that fit into the processor's cache. Memory then holds the layer's input, its
output (which can overwrite the input) and the activations of one block, however wide the feed-forward network is. With
gradients, the same holds if the layer recomputes its blocks in the backward pass.

If a hook observes the attention, or the output of any part of the layer, the layer is computed as a whole, without
blocks, recomputation and compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .attention import LinformerSelfAttention, ProjectedSequence, has_hooks, has_output_hooks
from .projection import Projection
from .settings import LinformerSettings

_CACHED_BYTES = 4096
"""Bytes of one channel in a block on a CPU, so that its activations fit into the caches: 2,048 positions in bfloat16,
1,024 in float32 (see benchmarks/NOTES.md)."""
_LARGE_BLOCK = 65536
"""Positions of a block on other devices: enough to use the whole device; only limits memory for very long inputs."""

Map = Callable[[Tensor], Tensor]
Step = TypeVar("Step", bound=Callable[..., Any])


class LayerParts(Protocol):
    """The modules and options of a layer. They have fairseq's names, so that fairseq's layer has them, too."""

    self_attn: LinformerSelfAttention
    self_attn_layer_norm: Map
    fc1: Map
    fc2: Map
    final_layer_norm: Map
    activation_fn: Map
    dropout_module: Map
    activation_dropout_module: Map
    normalize_before: bool
    training: bool
    compiled: bool
    """Use torch.compile for the two steps of the layer; set by `compile_layers`."""
    recompute: bool
    """Recompute the blocks of positions in the backward pass instead of keeping their activations."""


def encoder_layer(
    parts: LayerParts, x: Tensor, padding: Tensor | None, overwrite: bool = False, first_only: bool = False
) -> Tensor:
    """Computes a layer.

    Args:
        parts: the modules of the layer.
        x: (B, T, C).
        padding: bool (B, T), True at padding, or None. Outputs at padded positions are undefined.
        overwrite: in inference, the output may overwrite ``x``.
        first_only: compute only the output of the first position, which attends to all. A classifier needs no other
            of the last layer.

    Returns:
        (B, T, C), or (B, 1, C).

    Raises:
        ValueError: T is larger than ``max_positions``, the shapes do not match, or the mask is not bool.
    """
    if has_hooks(parts.self_attn) or has_output_hooks(parts):  # which see all positions at once, as in other models
        attended, _ = parts.self_attn(attention_input(parts, x), padding)
        return _end(parts, *_feed_forward(parts, x, attended))[:, : 1 if first_only else None]
    source, projected = _step(parts, _project)(parts, x, padding)
    if first_only:
        x, source = x[:, :1], source[:, :1]
    positions = _step(parts, _positions)
    if torch.compiler.is_compiling():  # the caller compiles a whole model
        return positions(parts, x, source, projected)
    blocks = list(_blocks(x))
    if torch.is_grad_enabled() and parts.recompute and blocks:
        inner = _step(parts, _inner)
        return _joined(
            blocks,
            [
                _end(
                    parts,
                    *checkpoint(inner, parts, x[block], source[block], projected.part(block[0]), use_reentrant=False),
                )
                for block in blocks
            ],
        )
    # Without gradients, but in training or of an input that requires one, a checkpoint runs the layer: it has saved the
    # input, and will run the layer again with gradients and the same dropout.
    whole = torch.is_grad_enabled() or parts.training or x.requires_grad
    if whole or len(blocks) <= 1:  # none for a batch of no sequences
        return positions(parts, x, source, projected)
    out = x if overwrite and 0 not in x.stride() else None  # not over several sequences that are one in memory
    for block in blocks:
        done = positions(parts, x[block], source[block], projected.part(block[0]))
        if out is None or out.dtype != done.dtype:  # by autocast; seen at the first block
            out = done.new_empty(x.shape)
        out[block] = done
    assert out is not None
    return out


def attention_input(layer: Any, x: Tensor) -> Tensor:
    """What a layer's attention reads: the layer's input, in a pre-norm layer after the layer norm.

    Args:
        layer: ours, or fairseq's.
        x: (B, T, C) or (T, B, C).
    """
    source: Tensor = layer.self_attn_layer_norm(x) if layer.normalize_before else x
    return source


def _project(parts: LayerParts, x: Tensor, padding: Tensor | None) -> tuple[Tensor, ProjectedSequence]:
    """The input of the attention, (B, T, C), and the projected keys and values."""
    source = attention_input(parts, x)
    return source, parts.self_attn.project(source, padding)


def _positions(parts: LayerParts, x: Tensor, source: Tensor, projected: ProjectedSequence) -> Tensor:
    """The layer after the projection, for any positions (B, t, C); ``source`` is their input to the attention."""
    return _end(parts, *_inner(parts, x, source, projected))


def _inner(parts: LayerParts, x: Tensor, source: Tensor, projected: ProjectedSequence) -> tuple[Tensor, Tensor]:
    """`_positions` up to `_end`, which is what is recomputed in the backward pass.

    The gradients of fc2, the last product, need its factors only, and recomputation stops when all that the backward
    pass needs is there. So fc2, two fifths of the operations at RoBERTa's sizes, is not computed again; in return, the
    last layer norm keeps its input, (B, t, C).
    """
    return _feed_forward(parts, x, parts.self_attn.attend(source, projected))


def _feed_forward(parts: LayerParts, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """The residual connection and the output of the feed-forward network; ``attended`` is the output of the attention
    for the positions ``x``."""
    x = x + parts.dropout_module(attended)
    if not parts.normalize_before:
        x = parts.self_attn_layer_norm(x)
    hidden = parts.final_layer_norm(x) if parts.normalize_before else x
    return x, parts.fc2(parts.activation_dropout_module(parts.activation_fn(parts.fc1(hidden))))


def _end(parts: LayerParts, x: Tensor, fed: Tensor) -> Tensor:
    """The layer's output from the two of `_feed_forward`."""
    x = x + parts.dropout_module(fed)
    return x if parts.normalize_before else parts.final_layer_norm(x)


def _step(parts: LayerParts, step: Step) -> Step:
    """`_project`, `_positions` or `_inner`, compiled if the layer is."""
    chosen: Step = _compiled(step) if parts.compiled else step
    return chosen


@cache
def _compiled(step: Any) -> Any:
    """A step with torch.compile, once for all layers, so that equal layers share the compiled code.

    The first shape is compiled statically, which is all that pretraining on full blocks needs; from the second shape
    on, lengths and batch sizes are dynamic. After too many graphs, torch warns and runs other shapes without
    compilation; with ``fullgraph=True``, it would fail.
    """
    return torch.compile(step)


def _joined(blocks: list[tuple[slice, slice]], done: list[Tensor]) -> Tensor:
    """Joins blocks, in the order of `_blocks`, to (B, T, C)."""
    by_sequence: dict[int, list[Tensor]] = {}
    for (sequences, _), block in zip(blocks, done, strict=True):
        by_sequence.setdefault(sequences.start, []).append(block)
    return _cat([_cat(row, dim=1) for row in by_sequence.values()], dim=0)


def _cat(tensors: list[Tensor], dim: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim)


def _block_size(x: Tensor) -> int:
    return _CACHED_BYTES // x.element_size() if x.device.type == "cpu" else _LARGE_BLOCK


def _blocks(x: Tensor) -> Iterator[tuple[slice, slice]]:
    """The sequences and positions of each block: several whole sequences, or a part of one."""
    batch, length, _ = x.shape
    size = _block_size(x)
    sequences = max(1, size // length)
    for first in range(0, batch, sequences):
        for start in range(0, length, size):
            yield slice(first, first + sequences), slice(start, start + size)


class LinformerEncoderLayer(nn.Module, LayerParts):
    """A layer in plain torch: post-norm, GELU, no dropout except attention dropout.

    Args:
        settings, layer, shared: as in `LinformerSelfAttention`.
        ffn_dim: width of the feed-forward network.
    """

    normalize_before = False
    compiled = False
    recompute = False

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

    def forward(
        self, x: Tensor, padding: Tensor | None = None, overwrite: bool = False, first_only: bool = False
    ) -> Tensor:
        """See `encoder_layer`."""
        return encoder_layer(self, x, padding, overwrite, first_only)
