"""Whether two checkpoints, or parts of them, are the same."""

from typing import Any

import torch


def same(one: Any, other: Any) -> bool:
    """Equal bit for bit, in nested containers too."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
