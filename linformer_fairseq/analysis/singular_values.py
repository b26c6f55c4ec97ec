"""Normalized cumulative singular values of attention matrices, and how many of them a share needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]


def cumulative(matrices: Tensor) -> Tensor:
    """The sum of the i largest singular values as a share of the sum of all, for every i.

    Args:
        matrices: (..., T, R); P or P-bar.

    Returns:
        (..., min(T, R)) in float64; the last is 1.
    """
    values = torch.linalg.svdvals(matrices.float()).double()
    sums = values.cumsum(-1)
    return sums / sums[..., -1:]


def needed(curves: Floats, share: float) -> npt.NDArray[np.int64]:
    """How many singular values make up ``share`` of their sum.

    Args:
        curves: (..., R), as `cumulative` returns them, or means of such.
        share: above 0, at most 1.

    Returns:
        (...), from 1 to R.
    """
    # The last value of a mean is 1 up to rounding.
    below = (curves[..., :-1] < share).sum(axis=-1)
    found: npt.NDArray[np.int64] = below + 1
    return found


def logit_variance(probabilities: Tensor) -> Tensor:
    """The variance of the logits within a row, the mean over rows; softmax(x) determines x up to a constant.

    Args:
        probabilities: (..., T, R). Zeros, which come from masks and from underflow, are left out.

    Returns:
        (...) in float64.
    """
    live = probabilities > 0
    logits = probabilities.double().masked_fill(~live, 1.0).log()
    count = live.sum(-1)
    mean = logits.sum(-1) / count
    variance = ((logits - mean.unsqueeze(-1)).masked_fill(~live, 0.0).square()).sum(-1) / count
    return variance.mean(-1)


def of_random_logits(deviations: Tensor, shape: tuple[int, int], draws: int, seed: int) -> Tensor:
    """`cumulative` of softmax(s Z) with independent standard normal Z, the mean over draws.

    Args:
        deviations: s, of any shape.
        shape: T and R of the matrices.
        draws: matrices for each s.
        seed: of Z.

    Returns:
        (..., min(T, R)) in float64.
    """
    generator = torch.Generator().manual_seed(seed)
    curves = []
    for deviation in deviations.flatten():
        logits = deviation.float() * torch.randn(draws, *shape, generator=generator)
        curves.append(cumulative(logits.softmax(-1)).mean(0))
    return torch.stack(curves).view(*deviations.shape, -1)
