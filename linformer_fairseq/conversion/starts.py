"""What E and F are before any training.

* ``window_means``: row i is the mean over the i-th of k windows; the kernels of a convolution are means.
* ``random``: as for a model that is trained from scratch (``projection_init=xavier``).
* ``dct``: the first k frequencies of the n positions, transformed back to k positions (`truncated_dct`).
* ``least_squares``: window means, then fitted to sample text (`fitting`).

With k = n, all are the identity, but for ``random`` of a linear projection.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from linformer_fairseq.core.projection import LinearProjection

STARTS = ("window_means", "random", "dct", "least_squares")


def truncated_dct(rows: int, max_positions: int) -> Tensor:
    """E (k, n) of a band-limited sampling: X to k points, without what varies faster than k points can show.

    With the orthonormal cosine transforms C_n (the first k rows) and C_k it is sqrt(k / n) C_k^T C_n. Its rows span the
    same space as those of C_n alone; unlike these they have a place in the text, and weights that sum to one.

    Args:
        rows: k, at most n.
        max_positions: n.
    """
    back, forth = _cosines(rows, rows).T, _cosines(rows, max_positions)
    return (math.sqrt(rows / max_positions) * back @ forth).float()


@torch.no_grad()
def start_with_dct(model: nn.Module) -> None:
    """Sets every E and F of a model with ``projection=linear`` to `truncated_dct`."""
    for module in model.modules():
        if isinstance(module, LinearProjection):
            module.weight.copy_(truncated_dct(module.rows, module.max_positions) / module.step)


def _cosines(count: int, points: int) -> Tensor:
    """The first rows of the orthonormal DCT-II matrix, (count, points), in double precision."""
    frequency = torch.arange(count, dtype=torch.float64).unsqueeze(1)
    place = torch.arange(points, dtype=torch.float64) + 0.5
    rows = torch.cos(math.pi / points * frequency * place) * math.sqrt(2 / points)
    rows[0] /= math.sqrt(2)
    return rows
