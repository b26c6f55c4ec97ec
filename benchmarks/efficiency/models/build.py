"""A model of the registry, for inference."""

from __future__ import annotations

import importlib

import torch
from torch import nn

from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.sizes import Sizes


def build(name: str, sizes: Sizes, n: int, k: int | None, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """A model for inputs of up to n positions, for inference, set up as its own users have it.

    It is in eval mode and nothing is frozen: torch folds a transposed input and its weight into one product only where
    the weight requires a gradient, so that a frozen fairseq model is many times slower than the one that users run.

    Args:
        name: in MODELS; `missing` says nothing of it.
        sizes: of it.
        n: positions.
        k: projected rows; None for a model without.
        dtype, device: of its weights, which are drawn by seed 0.
    """
    module, function = MODELS[name].function.split(":")
    maker = getattr(importlib.import_module(f"benchmarks.efficiency.models.{module}"), function)
    torch.manual_seed(0)
    model: nn.Module = maker(sizes, n, k)
    return model.to(device=device, dtype=dtype).eval()
