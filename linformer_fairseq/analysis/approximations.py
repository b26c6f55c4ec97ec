"""Approximations of softmax(Q K^T / sqrt(d)) V with equally many multiplications.

* ``window_means``: a Linformer whose E and F are matrices of window means, with k rows;
* ``mean_pooling``: the same function without the products with E and F, and so with 2 k rows;
* ``performer``: random features (`performer`);
* ``nystrom``: landmarks (`nystrom`).

Queries, keys and values are given. A Linformer can also project X before W^K and W^V, which saves most of these two
products; Performer and Nystrom attention need keys and values of all positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from linformer_fairseq.analysis import nystrom, performer
from linformer_fairseq.analysis.theorem2 import Sample, attention, relative_error, window_means

METHODS = ("window_means", "mean_pooling", "performer", "nystrom")
DRAWS = 5
"""Of Performer's features; the other methods have nothing random."""


def rows_for(k: int, length: int, depth: int) -> dict[str, int]:
    """Rows, features or landmarks of each of `METHODS`, with at most as many multiplications as k rows of E and F.

    With E and F these are 4 n k d for each head, which is the share 2 k / n of exact attention's 2 n^2 d.

    Args:
        k: from 1 to n / 2.
        length: n.
        depth: d.
    """
    budget = 4 * length * k * depth
    landmarks = max(m for m in range(1, k + 1) if m == 1 or nystrom.multiplications(length, m, depth, 1) <= budget)
    return {"window_means": k, "mean_pooling": 2 * k, "performer": k, "nystrom": landmarks}


@torch.no_grad()
def errors_at_equal_cost(sample: Sample, k: int, generator: torch.Generator) -> dict[str, Any]:
    """The relative error of each method on the second half of the samples, as in `theorem2.errors`.

    Args:
        sample: at least two samples.
        k: rows of E and F, from 1 to n / 2.
        generator: of the features.

    Returns:
        ``rows`` by method, ``errors`` by method, of which Performer's is the mean over `DRAWS`, and these as ``draws``.
    """
    query, key, value = sample.rest(len(sample.query) // 2)
    length, depth = query.shape[-2:]
    exact = attention(query, key, value)
    rows = rows_for(k, length, depth)

    def of_rows(count: int) -> float:
        means = window_means(count, length)
        return relative_error(attention(query, means @ key, means @ value), exact)

    def of_features() -> float:
        features = performer.draw_features(rows["performer"], depth, generator)
        return relative_error(performer.attend(features, query, performer.feature_rows(features, key, value)), exact)

    draws = [of_features() for _ in range(DRAWS)]
    errors = {
        "window_means": of_rows(rows["window_means"]),
        "mean_pooling": of_rows(rows["mean_pooling"]),
        "performer": sum(draws) / DRAWS,
        "nystrom": relative_error(_nystrom(query, key, value, rows["nystrom"]), exact),
    }
    assert tuple(errors) == tuple(rows) == METHODS
    return {"rows": rows, "errors": errors, "draws": draws}


def _nystrom(query: Tensor, key: Tensor, value: Tensor, landmarks: int) -> Tensor:
    means = window_means(landmarks, query.size(-2))
    return attention(query, means @ key, nystrom.landmark_values(means @ query, means @ key, key, value))
