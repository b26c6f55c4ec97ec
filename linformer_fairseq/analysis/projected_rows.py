"""E of a Linformer's heads as a matrix over the tokens of an input, whatever the projection."""

from __future__ import annotations

import torch
from torch import Tensor

from linformer_fairseq.analysis.encoder import Rows
from linformer_fairseq.core import LinformerSelfAttention
from linformer_fairseq.core.projection import LinearProjection
from linformer_fairseq.core.windows import Convolution, WindowProjection


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
    if isinstance(projection, Convolution):
        # Its rows are linear in the features, so that their values do not matter, only their number.
        by_feature = _derivative(projection, x[..., : len(projection.weight)])
        if attention.settings.sharing == "none":  # all heads in one convolution, or one for this head alone
            width = attention.settings.head_dim
            parts = by_feature.split(width, dim=1)
            by_feature = parts[head if len(parts) > 1 else 0]
    else:
        by_feature = _derivative(projection, x)
    size = projection.size(length)
    tokens = torch.arange(length, device=x.device)
    matrix = x.new_zeros(projection.count(length), length)
    matrix[tokens // size, tokens] = by_feature.mean(1)
    return Rows(matrix, size)


def _derivative(projection: WindowProjection, x: Tensor) -> Tensor:
    """The weight of each token and feature in the row of its window, (T, F): no token is in two windows."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(projection(x).sum(), x)
    return found[0]
