"""Performer's attention (FAVOR+): softmax attention estimated with positive orthogonal random features.

Choromanski et al.: Rethinking Attention with Performers, ICLR 2021, sections 2.3 and 2.4. For w ~ N(0, I_d) and
x' = x / d^(1/4),

    exp(q k / sqrt(d)) = E phi_w(q) phi_w(k),   phi_w(x) = exp(w x' - |x'|^2 / 2) > 0,

and m features estimate the expectation. This is attention to m rows. With s_ij = w_j k'_i - |k'_i|^2 / 2 for key i and
feature j,

    output(q) = sum_j softmax_j(w_j q' + log z_j) F_j V,   F_j = softmax over i of s_ij,   log z_j = logsumexp over i.

The two forms are equal, since |q'|^2 / 2 cancels. Here the second is computed: no exponential can overflow, and no
denominator can be zero, so it needs neither the maxima that implementations of the first subtract nor a constant that
they add to the features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class FeatureRows(NamedTuple):
    """What queries attend to: a row for each of m features."""

    log_norms: Tensor
    """log z, (B, H, m), at least in fp32; the largest of each sequence and head is 0."""
    values: Tensor
    """F V, (B, H, m, D)."""

    def part(self, sequences: slice) -> FeatureRows:
        """The rows of some of the sequences."""
        return FeatureRows(self.log_norms[sequences], self.values[sequences])


def draw_features(count: int, depth: int, generator: torch.Generator | None = None) -> Tensor:
    """w_1 ... w_m: (m, d), each from N(0, I), and orthogonal to each other in blocks of d.

    Args:
        count: m.
        depth: d, of a head.
        generator: None: torch's own.
    """
    blocks = math.ceil(count / depth)
    q, r = torch.linalg.qr(torch.randn(blocks, depth, depth, generator=generator))
    # QR chooses signs; with those of r's diagonal, q is uniformly distributed over the orthogonal matrices.
    directions = (q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)).flatten(0, 1)
    lengths = torch.randn(blocks * depth, depth, generator=generator).norm(dim=-1, keepdim=True)
    return (directions * lengths)[:count]


def feature_rows(features: Tensor, keys: Tensor, values: Tensor, padding: Tensor | None = None) -> FeatureRows:
    """Summarise all keys and values.

    Args:
        features: (m, D).
        keys, values: (B, H, T, D).
        padding: bool (B, T), True at padding, which does not contribute.
    """
    keys = keys * keys.size(-1) ** -0.25
    scores = features.to(keys.dtype) @ keys.transpose(-2, -1)  # (B, H, m, T)
    scores.sub_(keys.square().sum(-1).div(2).unsqueeze(-2))
    if padding is not None:
        scores.masked_fill_(padding[:, None, None, :], -math.inf)
    weights = scores.softmax(-1)
    # The logsumexp, by the largest score and its weight, without a copy of all scores in fp32.
    exact = torch.promote_types(scores.dtype, torch.float32)
    log_norms = scores.amax(-1).to(exact) - weights.amax(-1).to(exact).log()
    return FeatureRows(log_norms - log_norms.amax(-1, keepdim=True), weights @ values)


def attend(features: Tensor, query: Tensor, rows: FeatureRows) -> Tensor:
    """The output for queries (B, H, t, D), with the features and rows of their sequences: (B, H, t, D)."""
    scores = query @ (features * query.size(-1) ** -0.25).to(query.dtype).T
    return scores.add_(rows.log_norms.to(scores.dtype).unsqueeze(-2)).softmax(-1) @ rows.values


def multiplications(length: float, features: int, width: int) -> float:
    """Multiplications for T positions in heads of ``width`` C together, with queries, keys and values given: m T C for
    the features of the keys and of the queries, F V, and the output."""
    return 4 * length * features * width
