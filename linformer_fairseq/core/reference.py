"""A literal implementation of the paper's equations, head by head and sequence by sequence; slow.

Tests compare the optimized implementation with it. It does not pad, mask or batch: each sequence is first cut to its
real tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .attention import LinformerSelfAttention
from .convolution import Convolution
from .projection import LinearProjection, Projection, RaggedHeads
from .settings import LinformerSettings
from .windows import MeanPool, WindowProjection

# X (t, C) and W_i (D, C) -> E_i X W_i^T (R, D)
ProjectedLinear = Callable[[Tensor, Tensor], Tensor]


def reference_attention(
    attention: LinformerSelfAttention, x: Tensor, lengths: list[int] | None = None
) -> tuple[Tensor, list[list[Tensor]]]:
    """The output of ``attention`` in evaluation mode (equation 7 of the paper).

    Args:
        attention: module with the weights.
        x: (B, T, C).
        lengths: number of real tokens of each sequence, from position 0 on; None: T for all.

    Returns:
        (B, T, C), zero at padded positions; and P[b][i], (t, R), for sequence b and head i.
    """
    out = torch.zeros_like(x)
    weights: list[list[Tensor]] = []
    for b in range(x.size(0)):
        real = x.size(1) if lengths is None else lengths[b]
        heads, probabilities = [], []
        for i in range(attention.settings.num_heads):
            head, p = _head(attention, i, x[b, :real])
            heads.append(head)
            probabilities.append(p)
        joined = torch.cat(heads, dim=1)
        out[b, :real] = joined @ attention.out_proj.weight.T + attention.out_proj.bias
        weights.append(probabilities)
    return out, weights


def dense_attention(attention: LinformerSelfAttention, x: Tensor) -> Tensor:
    """RoBERTa's attention (equation 2 of the paper) with the same weights: k = n and E = F = I. (B, T, C)."""
    out = torch.empty_like(x)
    for b in range(x.size(0)):
        heads = [
            _softmax_head(attention, i, x[b], lambda x, w: x @ w.T)[0] for i in range(attention.settings.num_heads)
        ]
        out[b] = torch.cat(heads, dim=1) @ attention.out_proj.weight.T + attention.out_proj.bias
    return out


def _head(attention: LinformerSelfAttention, i: int, x: Tensor) -> tuple[Tensor, Tensor]:
    return _softmax_head(attention, i, x, _projection_of(attention, "k", i), _projection_of(attention, "v", i))


def _softmax_head(
    attention: LinformerSelfAttention, i: int, x: Tensor, e: ProjectedLinear, f: ProjectedLinear | None = None
) -> tuple[Tensor, Tensor]:
    d = attention.settings.head_dim
    rows = slice(i * d, (i + 1) * d)
    q = x @ attention.q_proj.weight[rows].T + attention.q_proj.bias[rows]
    k = e(x, attention.k_proj.weight[rows]) + attention.k_proj.bias[rows]
    v = (f or e)(x, attention.v_proj.weight[rows]) + attention.v_proj.bias[rows]
    p = torch.softmax(q @ k.T / math.sqrt(d), dim=-1)
    return p @ v, p


def _projection_of(attention: LinformerSelfAttention, which: str, i: int) -> ProjectedLinear:
    """E_i (``which`` = "k") or F_i ("v") of head i."""
    settings = attention.settings
    module = attention.proj_k if which == "k" or attention.proj_v is None else attention.proj_v
    owner = attention._shared if module is None else module
    d = settings.head_dim
    if isinstance(owner, RaggedHeads):
        head = owner.heads[i]
        assert isinstance(head, Projection)
        # The convolution of a head is applied to that head's features, X W_i; pooling is applied to X.
        return _matrix(settings, head, settings.dims[attention.layer][i], after_linear=isinstance(head, Convolution))
    assert isinstance(owner, Projection)
    k = settings.dims[attention.layer][i]
    if settings.sharing == "none" and isinstance(owner, LinearProjection):
        return lambda x, w: _row_weights(settings, owner.weight[i, :k], len(x)) @ x @ w.T
    if settings.sharing == "none" and isinstance(owner, Convolution):
        kernel = owner.weight[i * d : (i + 1) * d]
        return lambda x, w: _convolve(settings, x @ w.T, kernel, k)
    return _matrix(settings, owner, k)


def _matrix(settings: LinformerSettings, projection: Projection, k: int, after_linear: bool = False) -> ProjectedLinear:
    def project(y: Tensor) -> Tensor:
        if isinstance(projection, LinearProjection):
            return _row_weights(settings, projection.weight[:k], len(y)) @ y
        if isinstance(projection, Convolution):
            return _convolve(settings, y, projection.weight, k)
        assert isinstance(projection, WindowProjection)
        pool = torch.mean if isinstance(projection, MeanPool) else torch.amax
        return torch.stack([pool(part, dim=0) for part in torch.split(y, _window(settings, len(y), k))])

    return (lambda x, w: project(x @ w.T)) if after_linear else (lambda x, w: project(x) @ w.T)


def _row_weights(settings: LinformerSettings, weight: Tensor, t: int) -> Tensor:
    """The stored weight (k, n) -> (k, t), the weights of row i over t tokens."""
    e = settings.projection_step * weight
    return _affine(settings, _stretch(e, t) if settings.short_inputs == "stretch" else e[:, :t])


def _stretch(e: Tensor, t: int) -> Tensor:
    """(rows, n) -> (rows, t), each column the sum of neighbouring ones."""
    n = e.size(1)
    return torch.stack([e[:, j * n // t : (j + 1) * n // t].sum(dim=1) for j in range(t)], dim=1)


def _window(settings: LinformerSettings, t: int, k: int) -> int:
    return math.ceil((t if settings.short_inputs == "stretch" else settings.max_positions) / k)


def _affine(settings: LinformerSettings, weights: Tensor) -> Tensor:
    """(rows, tokens) -> the same shape; with ``row_weights=affine``, rows sum to one."""
    if settings.row_weights == "free":
        return weights
    return weights + (1 - weights.sum(dim=1, keepdim=True)) / weights.size(1)


def _convolve(settings: LinformerSettings, y: Tensor, weight: Tensor, k: int) -> Tensor:
    """Depthwise convolution; a window that extends beyond the tokens uses only the taps within."""
    stride = _window(settings, len(y), k)
    width = stride * settings.kernel_strides if stride > 1 else 1
    kernel = _stretch(settings.projection_step * weight, width)
    rows = []
    for middle in range(0, len(y), stride):
        start = middle - (width - stride) // 2
        first, last = max(start, 0), min(start + width, len(y))
        taps = _affine(settings, kernel[:, first - start : last - start])
        rows.append((y[first:last] * taps.T).sum(dim=0))
    return torch.stack(rows)
