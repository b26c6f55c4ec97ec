"""Theorem 1 of the paper in numbers: P R^T R w against P w, for R (k, n) with independent entries from N(0, 1/k).

For fixed P (n, n) and w (n,), a row x of P and its product x w have the exact mean square

    E (x R^T R w - x w)^2 = (|x|^2 |w|^2 + (x w)^2) / k,

which is small beside (x w)^2 only where x and w point in similar directions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = 0.5
"""Of the bounds that products are held against."""


class ProductErrors(NamedTuple):
    """Errors of P R^T R w for one P, k, and some columns w."""

    error: float
    """|P R^T R w - P w| / |P w|, the median (of two in the middle, the lower one) over columns and draws of R."""
    expected: float
    """The same by the formula above: the root of the mean square, the median over columns."""
    within_product: float
    """Share of the entries of P w whose error is at most EPSILON |x w|, the bound in the paper's proof."""
    within_norms: float
    """Share with an error of at most EPSILON |x| |w|, the bound of the Johnson-Lindenstrauss lemma."""


@torch.no_grad()
def product_errors(p: Tensor, w: Tensor, rows: int, draws: int, generator: torch.Generator) -> ProductErrors:
    """Approximate P w.

    Args:
        p: (n, n).
        w: (n, c), columns.
        rows: k.
        draws: of R.
        generator: of R.
    """
    exact = p @ w
    norms = p.norm(dim=1, keepdim=True) * w.norm(dim=0)
    errors, by_product, by_norms = [], [], []
    for _ in range(draws):
        r = torch.randn(rows, p.size(1), generator=generator, dtype=p.dtype) / math.sqrt(rows)
        wrong = (p @ r.T) @ (r @ w) - exact
        errors.append(wrong.norm(dim=0) / exact.norm(dim=0))
        by_product.append((wrong.abs() <= EPSILON * exact.abs()).double().mean())
        by_norms.append((wrong.abs() <= EPSILON * norms).double().mean())
    mean_square = (norms.square() + exact.square()).sum(0) / rows
    return ProductErrors(
        float(torch.stack(errors).median()),
        float((mean_square.sqrt() / exact.norm(dim=0)).median()),
        float(torch.stack(by_product).mean()),
        float(torch.stack(by_norms).mean()),
    )


def epsilon_of_paper(rows: int, length: int) -> float | None:
    """The error that the proof promises for a k: eps with k = 5 ln(n) / (eps^2 - eps^3).

    Args:
        rows: k.
        length: n.

    Returns:
        eps from 0 to 2/3; None if k is so small that there is none.
    """
    wanted = 5 * math.log(length) / rows
    low, high = 0.0, 2 / 3  # where eps^2 - eps^3 increases
    if wanted > high**2 - high**3:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle**2 - middle**3 < wanted else (low, middle)
    return high


def rows_of_paper(epsilon: float, length: int) -> int:
    """k = 5 ln(n) / (eps^2 - eps^3), rounded up."""
    return math.ceil(5 * math.log(length) / (epsilon**2 - epsilon**3))
