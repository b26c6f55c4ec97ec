"""The rate of matrix products that this device reaches: the limit that models are compared with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.timing import outliers, seconds_of
from linformer_fairseq.files.errors import UserError

ROWS = 16384
"""Rows of the products: the positions of a large batch."""
_REPETITIONS = 3


def calls(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> dict[str, Callable[[], float]]:
    """Matrix products of the model's shapes; each call returns operations per second.

    They are timed in the same rounds as the models, so that both run under the same load.
    """
    shapes = {(ROWS, sizes.width, sizes.ffn), (ROWS, sizes.ffn, sizes.width), (ROWS, sizes.width, sizes.width)}
    if device.type == "cuda":
        shapes.add((8192, 8192, 8192))
    return {"x".join(map(str, shape)): partial(_rate, shape, dtype, device) for shape in sorted(shapes)}


@dataclass(frozen=True)
class Limit:
    """Operations per second, in each round, of the shape whose median is the highest."""

    by_round: Sequence[float]

    @classmethod
    def of(cls, taken: Mapping[Any, Sequence[float]], failed: Mapping[Any, Exception], shapes: Iterable[str]) -> Limit:
        """Make a limit from the result of `in_rounds` and the names of `calls`.

        Raises:
            UserError: all shapes failed.
        """
        shapes = list(shapes)
        there = [taken[shape] for shape in shapes if shape in taken]
        if not there:
            raise UserError(f"matrix products, which are the limit, failed: {failed[shapes[0]]}")
        return cls(max(there, key=statistics.median))

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.by_round)

    @property
    def outliers(self) -> int:
        """Number of rounds in which the time of the products was an outlier."""
        return outliers([1 / rate for rate in self.by_round])

    def share(self, work: float, seconds: Sequence[float]) -> float:
        """The share of the limit that a call reaches: the median over the rounds.

        Args:
            work: operations of the call.
            seconds: its seconds in the same rounds.
        """
        return statistics.median([work / one / limit for one, limit in zip(seconds, self.by_round, strict=True)])


def _rate(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> float:
    rows, inner, columns = shape
    x = torch.randn(rows, inner, device=device).to(dtype)
    weight = torch.randn(columns, inner, device=device).to(dtype)
    out = torch.empty(rows, columns, device=device, dtype=dtype)  # so that nothing is allocated during timing
    products = 1 if device.type == "cpu" else 20

    def product() -> None:
        for _ in range(products):
            torch.mm(x, weight.t(), out=out)

    with torch.no_grad():
        product()
        taken = [seconds_of(product, device) for _ in range(_REPETITIONS)]
    return 2.0 * rows * inner * columns * products / statistics.median(taken)
