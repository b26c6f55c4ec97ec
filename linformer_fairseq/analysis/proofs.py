"""Three steps of the paper's proofs, checked with numbers.

The paper's result, that a Linformer can be trained to work as well as a RoBERTa, does not rest on them: E and F are
learned. But k = O(log n), or k independent of n, does not follow for all inputs.

1. The proof of Theorem 1 has |x R^T R w - x w| <= eps |x w| for k = 5 ln(n) / (eps^2 - eps^3). The lemma of Johnson and
   Lindenstrauss has eps |x| |w| on the right side, which is much more where x and w are nearly orthogonal.
2. The right side of Theorem 2, eps |softmax(w)| |V|, is so large that output zero is within it for a small eps.
3. The proof of Theorem 2 lets delta go to zero in E = delta R, F = exp(-delta) R. Then softmax(w E^T) becomes uniform
   whatever w is.

In all three, queries, keys and values (n, d) are independent and standard normal, so of zero mean, and w is a row of
Q K^T / sqrt(d).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linformer_fairseq.analysis.theorem1 import EPSILON, product_errors, rows_of_paper
from linformer_fairseq.analysis.theorem2 import attention, probabilities, relative_error

LENGTH = 512
HEAD_DIM = 64


@torch.no_grad()
def inner_products(generator: torch.Generator) -> dict[str, float]:
    """Step 1: the share of the entries of P V within each bound, for the k of the proof."""
    query, key, value = _normal(generator)
    rows = rows_of_paper(EPSILON, LENGTH)
    found = product_errors(probabilities(query, key), value, rows, 4, generator)
    return {"within_product": found.within_product, "within_norms": found.within_norms, "rows": rows}


@torch.no_grad()
def output_zero(generator: torch.Generator) -> dict[str, float]:
    """Step 2: the smallest eps with |0 - softmax(w) V| <= eps |softmax(w)| |V| for all n rows.

    ``frobenius`` and ``spectral`` is the norm of V.
    """
    query, key, value = _normal(generator)
    p = probabilities(query, key)
    share = float(((p @ value).norm(dim=1) / p.norm(dim=1)).max())
    return {
        "frobenius": share / float(value.norm()),
        "spectral": share / float(torch.linalg.matrix_norm(value, ord=2)),
    }


@torch.no_grad()
def small_delta(delta: float, generator: torch.Generator) -> dict[str, float]:
    """Step 3: what the construction of the proof computes with the k of the proof.

    ``spread`` is how much the output depends on the query: |A' - mean over queries of A'| / |A'|; for comparison,
    ``exact_spread`` is that of A. ``error`` is |A' - A| / |A|.
    """
    query, key, value = _normal(generator)
    rows = rows_of_paper(EPSILON, LENGTH)
    r = torch.randn(rows, LENGTH, generator=generator) / math.sqrt(rows)
    exact = attention(query, key, value)
    found = attention(query, delta * r @ key, math.exp(-delta) * r @ value)
    return {"error": relative_error(found, exact), "spread": _spread(found), "exact_spread": _spread(exact)}


def _spread(output: Tensor) -> float:
    return float((output - output.mean(0)).norm() / output.norm())


def _normal(generator: torch.Generator) -> list[Tensor]:
    return [torch.randn(LENGTH, HEAD_DIM, generator=generator) for _ in range(3)]
