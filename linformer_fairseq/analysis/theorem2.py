"""Theorem 2 of the paper in numbers: softmax(Q (E K)^T) F V against softmax(Q K^T) V, by choice of E and F.

* ``random``: E = F = R, with independent entries from N(0, 1/k) (Johnson and Lindenstrauss);
* ``proof``: E = delta R and F = exp(-delta) R with delta = 1/n, as in the paper's proof;
* ``window_means`` and ``dct``: as `linformer convert --start` has them;
* ``least_squares``: E is window means, and F is fitted to other samples.

Scores are divided by sqrt(d), as in the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from linformer_fairseq.conversion.starts import truncated_dct
from linformer_fairseq.core.row_weights import window_means_

METHODS = ("random", "proof", "window_means", "dct", "least_squares")
_STEPS = 20
"""Of conjugate gradients. They begin with window means, and more steps fit noise of the samples."""


class Sample(NamedTuple):
    """Queries, keys and values, (M, H, n, d) each: M samples of H heads."""

    query: Tensor
    key: Tensor
    value: Tensor

    def first(self, count: int) -> Sample:
        """The first ``count`` samples."""
        return Sample(*(part[:count] for part in self))

    def rest(self, count: int) -> Sample:
        """The samples after the first ``count``."""
        return Sample(*(part[count:] for part in self))


def attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V: (..., n, d), with (..., R, d) keys and values."""
    return probabilities(query, keys) @ values


def probabilities(query: Tensor, keys: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d)): (..., n, R)."""
    return (query @ keys.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(-1)


def relative_error(found: Tensor, exact: Tensor) -> float:
    """|found - exact| / |exact| in the Euclidean norm over everything; output zero has 1."""
    return float((found - exact).double().norm() / exact.double().norm())


@torch.no_grad()
def errors(sample: Sample, rows: int, generator: torch.Generator) -> dict[str, float]:
    """The relative error of each method, on the second half of the samples; `METHODS` are the names.

    Args:
        sample: at least two samples; the first half is what ``least_squares`` is fitted to.
        rows: k, from 1 to n.
        generator: of R.
    """
    half = len(sample.query) // 2
    fitted, (query, key, value) = sample.first(half), sample.rest(half)
    exact = attention(query, key, value)

    def error(e: Tensor, f: Tensor) -> float:
        return relative_error(attention(query, e @ key, f @ value), exact)

    n = query.size(-2)
    r = torch.randn(len(query), 1, rows, n, generator=generator) / math.sqrt(rows)
    means, dct = window_means(rows, n), truncated_dct(rows, n)
    found = {
        "random": error(r, r),
        "proof": error(r / n, math.exp(-1 / n) * r),
        "window_means": error(means, means),
        "dct": error(dct, dct),
        "least_squares": error(means, fit_values(fitted, means)),
    }
    assert tuple(found) == METHODS
    return found


def window_means(rows: int, length: int) -> Tensor:
    """E (k, n): row i is the mean over the i-th of k windows."""
    matrix = torch.empty(rows, length)
    window_means_(matrix)
    return matrix


def fit_values(sample: Sample, e: Tensor) -> Tensor:
    """F for each head that minimizes the sum over samples of |P-bar F V - P V|^2, by conjugate gradients from F = E.

    Args:
        sample: what it is fitted to.
        e: (k, n).

    Returns:
        (H, k, n).
    """
    query, key, value = sample
    pbar = probabilities(query, e @ key)
    gram = pbar.transpose(-2, -1) @ pbar

    def normal(f: Tensor) -> Tensor:
        return (gram @ (f @ value) @ value.transpose(-2, -1)).sum(0)

    wanted = (pbar.transpose(-2, -1) @ attention(*sample) @ value.transpose(-2, -1)).sum(0)
    return _conjugate_gradients(normal, wanted, e.expand(query.size(1), -1, -1).clone())


def _conjugate_gradients(normal: Callable[[Tensor], Tensor], wanted: Tensor, x: Tensor) -> Tensor:
    """Solve normal(X) = wanted for each head, all (H, k, n); Hestenes and Stiefel 1952."""

    def product(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((-2, -1), keepdim=True)

    rest = wanted - normal(x)
    direction, square = rest, product(rest, rest)
    for _ in range(_STEPS):
        image = normal(direction)
        step = square / product(direction, image).clamp_min(torch.finfo(x.dtype).tiny)
        x, rest = x + step * direction, rest - step * image
        before, square = square, product(rest, rest)
        direction = rest + square / before.clamp_min(torch.finfo(x.dtype).tiny) * direction
    return x
