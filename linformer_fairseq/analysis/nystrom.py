"""Nystrom attention: P reconstructed from its rows and columns at m landmarks.

Xiong et al.: Nystromformer: A Nystrom-based Algorithm for Approximating Self-Attention, AAAI 2021, section 3. With
landmarks Q~ and K~, the means of queries and keys in segments of neighbouring positions, and sm for softmax in rows,

    output = sm(Q K~^T) A^+ sm(Q~ K^T) V,   A = sm(Q~ K~^T),   all scores divided by sqrt(d).

So queries attend to m rows with keys K~ and values A^+ sm(Q~ K^T) V. A^+ is approximated by six steps of the
paper's iteration of matrix products. The paper also adds a depthwise convolution of V to the output; this is no part of
the approximation, and is left out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

STEPS = 6
"""Of the iteration, as in the paper."""


def landmark_values(
    query_landmarks: Tensor,
    key_landmarks: Tensor,
    keys: Tensor,
    values: Tensor,
    padding: Tensor | None = None,
    live: Tensor | None = None,
) -> Tensor:
    """A^+ sm(Q~ K^T) V: (B, H, m, D).

    Args:
        query_landmarks, key_landmarks: Q~ and K~, (B, H, m, D).
        keys, values: (B, H, T, D).
        padding: bool (B, T), True at padding, which does not contribute.
        live: bool (B or 1, 1, m), True for landmarks that exist; None: all. The others contribute nothing, and queries
            must not attend to them.
    """
    exact = torch.promote_types(keys.dtype, torch.float32)  # the iteration squares errors of rounding
    scores = (query_landmarks @ key_landmarks.transpose(-2, -1)).to(exact) / math.sqrt(keys.size(-1))
    if live is not None:
        scores = scores.masked_fill(~live.unsqueeze(-2), -math.inf)
    corner = scores.softmax(-1)
    if live is not None:
        corner = corner * live.unsqueeze(-1)
    seen = None if padding is None else ~padding[:, None, None, :]
    rows = F.scaled_dot_product_attention(query_landmarks, keys, values, attn_mask=seen)
    return pseudo_inverse(corner).to(values.dtype) @ rows


def pseudo_inverse(matrix: Tensor, steps: int = STEPS) -> Tensor:
    """An approximation of the pseudo-inverse of (..., m, m), which is not negative.

    It starts with the transpose, divided by the largest row sum and the largest column sum, which is near enough to
    converge. Rows and columns of zeros stay so.
    """
    identity = torch.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)
    largest = matrix.sum(-1).amax(-1) * matrix.sum(-2).amax(-1)
    z = matrix.transpose(-2, -1) / largest[..., None, None]
    for _ in range(steps):
        product = matrix @ z
        inner = 15 * identity - product @ (7 * identity - product)
        z = z @ (13 * identity - product @ inner) / 4
    return z


def multiplications(length: float, landmarks: int, width: int, heads: int) -> float:
    """Multiplications for T positions in heads of ``width`` C together, with queries, keys and values given.

    The means are not counted, as in `core.flops`; each step of the iteration is four products of (m, m) matrices.
    """
    return 4 * length * landmarks * width + 2 * landmarks**2 * width + 4 * STEPS * heads * landmarks**3
