"""E of a Linformer's heads as a matrix over the tokens of an input, whatever the projection."""

from __future__ import annotations

import torch
from torch import Tensor

from linformer_fairseq.analysis.encoder import Rows
from linformer_fairseq.core import LinformerSelfAttention
from linformer_fairseq.core.convolution import Convolution
from linformer_fairseq.core.projection import LinearProjection
from linformer_fairseq.core.settings import kernel_length
from linformer_fairseq.core.windows import WindowProjection


def projected_rows(attention: LinformerSelfAttention, x: Tensor) -> list[Rows]:
    """E of each head, which makes the projected keys.

    Of a convolution, the mean of the kernels over the features that they are for: those of the head with
    ``sharing=none``, otherwise all. Of max pooling, which has no weights, the share of the features in which the token
    is the largest; equal ones share.

    Args:
        attention: of a layer.
        x: its input (B, T, C), without padding; only max pooling depends on it, and the first of the batch counts.
    """
    return [_rows(attention, head, x[:1]) for head in range(attention.settings.num_heads)]


def _rows(attention: LinformerSelfAttention, head: int, x: Tensor) -> Rows:
    projection, length = attention.key_projection(head), x.size(1)
    if isinstance(projection, LinearProjection):
        # With sharing=layerwise, a layer with a smaller k uses the first rows.
        matrix = projection.matrix(attention.settings.dims[attention.layer][head], length)
        return Rows(matrix[head] if matrix.dim() == 3 else matrix, None)
    assert isinstance(projection, WindowProjection)
    parts, strides = slice(None), 1
    if isinstance(projection, Convolution):
        # Its rows are linear in the features, so that their values do not matter, only their number.
        x, strides = x[..., : len(projection.weight)], projection.strides
        width = attention.settings.head_dim
        if attention.settings.sharing == "none" and x.size(-1) > width:  # all heads in one convolution
            parts = slice(head * width, (head + 1) * width)
    size = projection.size(length)
    before = (kernel_length(size, strides) - size) // 2
    strides = strides if size > 1 else 1
    tokens = torch.arange(length, device=x.device)
    matrix = x.new_zeros(projection.count(length), length)
    for first in range(min(strides, len(matrix))):  # together, rows whose windows do not overlap
        by_feature = _derivative(projection, x, slice(first, None, strides))[:, parts]
        start = first * size - before
        row = first + (tokens - start).div(strides * size, rounding_mode="floor") * strides
        there = (row >= 0) & (row < len(matrix))
        matrix[row[there], tokens[there]] = by_feature[there].mean(1)
    return Rows(matrix, size)


def _derivative(projection: WindowProjection, x: Tensor, rows: slice) -> Tensor:
    """The weight of each token and feature in that of some rows whose window it is in, (T, F)."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(projection(x)[:, rows].sum(), x)
    return found[0]
