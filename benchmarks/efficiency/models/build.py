"""Building a model of the registry for inference."""

from __future__ import annotations

import importlib

import torch
from torch import nn

from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.sizes import Sizes


def build(name: str, sizes: Sizes, n: int, k: int | None, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Build a model for inference with inputs of up to n positions, set up as by its own users.

    It is in eval mode, but not frozen: torch computes the product of a transposed input and a weight as one matrix
    product only if the weight requires a gradient, so a frozen fairseq model is many times slower than that of users.

    Args:
        name: a key of MODELS for which `missing` returns an empty string.
        sizes: of the model.
        n: positions.
        k: projected dimension; None for a model without one.
        dtype, device: of the weights, which are drawn with seed 0.
    """
    module, function = MODELS[name].function.split(":")
    maker = getattr(importlib.import_module(f"benchmarks.efficiency.models.{module}"), function)
    torch.manual_seed(0)
    model: nn.Module = maker(sizes, n, k)
    return model.to(device=device, dtype=dtype).eval()
