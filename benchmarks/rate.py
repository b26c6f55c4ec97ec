"""The rate of matrix products that this device reaches, against which models are held."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.sizes import Sizes
from benchmarks.timing import seconds_of

ROWS = 16384
"""Positions of the products: as many as a large batch has."""
_REPETITIONS = 7
_SECONDS = 4.0
"""After which a shape is not repeated any more."""


def measure(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Operations per second of products like the model's, and the best of them as the limit."""
    shapes = {(ROWS, sizes.width, sizes.ffn), (ROWS, sizes.ffn, sizes.width), (ROWS, sizes.width, sizes.width)}
    if device.type == "cuda":
        shapes.add((8192, 8192, 8192))
    by_shape = {"x".join(map(str, shape)): _rate(shape, dtype, device) for shape in sorted(shapes)}
    return {"operations_per_second": max(by_shape.values()), "by_shape": by_shape}


def measure_into(content: dict[str, Any], sizes: Sizes, dtype: torch.dtype, device: torch.device) -> float:
    """Measure, and keep the better of this and what ``content`` has: the machine may have been busy once.

    Args:
        content: of a file of results; the shares in its cells follow.
        sizes, dtype, device: as in `measure`.

    Returns:
        The limit.
    """
    found = measure(sizes, dtype, device)
    if found["operations_per_second"] > content.get("rate", found)["operations_per_second"] or "rate" not in content:
        content["rate"] = found
    limit: float = content["rate"]["operations_per_second"]
    for cell in content["cells"]:
        if cell["status"] == "ok":
            cell["share_of_limit"] = cell["operations_per_second"] / limit
    return limit


def _rate(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> float:
    rows, inner, columns = shape
    x = torch.randn(rows, inner, device=device).to(dtype)
    weight = torch.randn(columns, inner, device=device).to(dtype)
    calls = 1 if device.type == "cpu" else 20

    def product() -> None:
        for _ in range(calls):
            F.linear(x, weight)

    with torch.no_grad():
        product()
        started = time.perf_counter()
        taken: list[float] = []
        while len(taken) < _REPETITIONS and (not taken or time.perf_counter() - started < _SECONDS):
            taken.append(seconds_of(product, device))
    return 2.0 * rows * inner * columns * calls / statistics.median(taken)
