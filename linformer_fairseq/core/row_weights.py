"""The weights with which projected rows add up the tokens of an input, made from E or from kernels.

The paper leaves two things open. E has a column for each of n positions: what do T < n tokens do with them? And what
do the weights of a row sum to? Rows of dense attention's P are means of the tokens; those of a random E are not, and
learn to be even less so. Tokens come first in every sequence, padding after them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def stretched(weight: Tensor, length: int, count: Tensor | None) -> Tensor:
    """E laid over the tokens there are: token t gets the sum of columns floor(t n / T) to floor((t + 1) n / T) - 1.

    Args:
        weight: (..., R, n); or the kernels of a convolution, (F, window).
        length: positions of the input.
        count: (B,) tokens of each sequence; None: ``length`` in all.

    Returns:
        (..., R, length); with ``count`` (B, ..., R, length), zero at padding.
    """
    n = weight.size(-1)
    if count is None and length == n:
        return weight
    tokens = torch.full((1,), length, device=weight.device) if count is None else count.clamp(min=1)
    edges = torch.arange(length + 1, device=weight.device) * n // tokens.unsqueeze(1)  # (B or 1, length + 1)
    sums = F.pad(_exact(weight).cumsum(dim=-1), (1, 0))
    spread = sums[..., edges.clamp(max=n)].diff(dim=-1).movedim(-2, 0)
    return (spread[0] if count is None else spread).to(weight.dtype)


def first_columns(weight: Tensor, length: int, count: Tensor | None) -> Tensor:
    """The columns of the positions there are, as fairseq's example takes them; shapes as in `stretched`."""
    weight = weight[..., :length]
    if count is None:
        return weight
    real = torch.arange(length, device=weight.device) < count.unsqueeze(1)
    return weight * real.view(count.size(0), *[1] * (weight.dim() - 1), length)


def affine(weight: Tensor, count: Tensor | None) -> Tensor:
    """The weights, and on each token an equal part of what the row lacks to a sum of one.

    As a product that is E_T (M X) + (1 - E_T m) x', with m the mask of the tokens and x' their mean.

    Args:
        weight: (..., R, T); with ``count`` (B, ..., R, T), zero at padding.
        count: (B,) tokens of each sequence; None: T in all.

    Returns:
        The same shape. Weights of padding have no meaning: features there are zero.
    """
    exact = _exact(weight)
    missing = 1 - exact.sum(dim=-1, keepdim=True)
    tokens = weight.size(-1) if count is None else count.clamp(min=1).view(-1, *[1] * (weight.dim() - 1))
    return (exact + missing / tokens).to(weight.dtype)


def affine_taps(kernel: Tensor) -> Tensor:
    """What makes a convolution affine: what every tap gets on top, by the number r of tokens in the window.

    Args:
        kernel: (..., F, s), s taps a window.

    Returns:
        (..., s + 1, F): row r makes the first r taps sum to one; row 0 is zero.
    """
    missing = 1 - _exact(kernel).cumsum(dim=-1)
    parts = missing / torch.arange(1, kernel.size(-1) + 1, device=kernel.device)
    return F.pad(parts.transpose(-1, -2), (0, 0, 1, 0)).to(kernel.dtype)


def window_means_(matrix: Tensor) -> None:
    """Fills E (k, n) with means of k windows of neighbours, which together are all n positions."""
    rows, n = matrix.shape
    matrix.zero_()
    for row in range(rows):
        start = row * n // rows
        end = max(start + 1, (row + 1) * n // rows)
        matrix[row, start:end] = 1 / (end - start)


def _exact(weight: Tensor) -> Tensor:
    return weight.to(torch.promote_types(weight.dtype, torch.float32))
