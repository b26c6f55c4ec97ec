"""Linear maps of the same input, as one product where that is faster."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .dot_product import has_amx

_FEWEST_POSITIONS = 512
"""Positions of a batch for which one product is faster although the weights are copied for it (benchmarks/NOTES.md)."""


def together(maps: Sequence[nn.Module], x: Tensor) -> tuple[Tensor, ...]:
    """The outputs of linear maps that have the same width, for (..., C): views of the result of one product."""
    weight, bias = (torch.cat([getattr(one, name) for one in maps]) for name in ("weight", "bias"))
    return F.linear(x, weight, bias).chunk(len(maps), dim=-1)


def faster_together(maps: Sequence[nn.Module], x: Tensor) -> bool:
    """Whether one product is faster: in inference in bf16 on a CPU with AMX, for many positions (..., C).

    Never if something has taken the place of a linear map, or observes it.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if x.device.type != "cpu" or x.dtype != torch.bfloat16 or not has_amx():
        return False
    return x.shape[:-1].numel() >= _FEWEST_POSITIONS and all(is_plain(one) for one in maps)


def is_plain(module: nn.Module) -> bool:
    """Whether the module is a linear map that can be replaced by its weight: without hooks, quantization or LoRA."""
    return type(module) is nn.Linear and not has_hooks(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether calls of the module are observed, so that it must be called as a whole."""
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    return any(hooks)
