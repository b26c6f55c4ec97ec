"""The weights of projected rows over the tokens of an input, computed from E or from convolution kernels.

The paper leaves two choices open: how the n columns of E are used for T < n tokens (``short_inputs``), and what the
weights of a row sum to (``row_weights``). Rows of P in dense attention sum to one; those of a random E do not, and move
further away from it in training. In every sequence, padding comes after the tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def stretched(weight: Tensor, length: int, count: Tensor | None) -> Tensor:
    """Fits E to T tokens: the weight of token t is the sum of columns floor(t n / T) to floor((t + 1) n / T) - 1.

    Args:
        weight: (..., R, n); or the kernels of a convolution, (F, window).
        length: positions of the input.
        count: (B,), the number of tokens of each sequence; None: ``length`` for all.

    Returns:
        (..., R, length); with ``count``, (B, ..., R, length), zero at padding.
    """
    n = weight.size(-1)
    if count is None and length == n:
        return weight
    tokens = torch.full((1,), length, device=weight.device) if count is None else count.clamp(min=1)
    edges = torch.arange(length + 1, device=weight.device) * n // tokens.unsqueeze(1)  # (B or 1, length + 1)
    sums = F.pad(_exact(weight).cumsum(dim=-1), (1, 0))
    # Not by indexing: many edges are the same, and its backward pass adds their gradients one after the other on a GPU.
    spread = sums.index_select(-1, edges.clamp(max=n).flatten()).view(*sums.shape[:-1], *edges.shape)
    spread = spread.diff(dim=-1).movedim(-2, 0)
    return (spread[0] if count is None else spread).to(weight.dtype)


def first_columns(weight: Tensor, length: int, count: Tensor | None) -> Tensor:
    """The first ``length`` columns, as in fairseq's example; shapes as in `stretched`."""
    weight = weight[..., :length]
    if count is None:
        return weight
    real = torch.arange(length, device=weight.device) < count.unsqueeze(1)
    return weight * real.view(count.size(0), *[1] * (weight.dim() - 1), length)


def affine(weight: Tensor, count: Tensor | None) -> Tensor:
    """Makes rows sum to one, by adding the same amount to the weight of each token.

    The projection is then E_T (M X) + (1 - E_T m) x', where m is the mask of the tokens and x' their mean.

    Args:
        weight: (..., R, T); with ``count``, (B, ..., R, T), zero at padding.
        count: (B,), the number of tokens of each sequence; None: T for all.

    Returns:
        The same shape. Weights at padding are undefined, because the features there are zero.
    """
    exact = _exact(weight)
    missing = 1 - exact.sum(dim=-1, keepdim=True)
    tokens = weight.size(-1) if count is None else count.clamp(min=1).view(-1, *[1] * (weight.dim() - 1))
    return (exact + missing / tokens).to(weight.dtype)


def window_means_(matrix: Tensor) -> None:
    """Initializes E (k, n): row i is the mean over the i-th of k windows, which together cover all n positions."""
    rows, n = matrix.shape
    matrix.zero_()
    for row in range(rows):
        start = row * n // rows
        end = max(start + 1, (row + 1) * n // rows)
        matrix[row, start:end] = 1 / (end - start)


def _exact(weight: Tensor) -> Tensor:
    return weight.to(torch.promote_types(weight.dtype, torch.float32))
