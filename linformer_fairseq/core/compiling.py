"""Layers through torch.compile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
import torch._dynamo
from torch import nn

_PROGRAMS = 16
"""Of one layer: with gradients or without, T = n or below it, one sequence or several, and autocast or not."""


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compiles each layer in place, at its first call; the state dict keeps its names.

    Layer by layer, not the encoder as a whole: equal layers share what was compiled, so that 12 take as long as one.
    Lengths and batch sizes are symbols: few of them compile again.

    Raises:
        ValueError: torch lies where its compiler for CPUs cannot work.
    """
    layers = list(layers)
    folder = Path(torch.__file__).parent
    if " " in str(folder) and not torch.cuda.is_available():
        raise ValueError(
            f"torch.compile cannot make code for this CPU; torch lies in {str(folder)!r}, and its calls of a compiler "
            "break at the blank; use an environment in a folder without one, or leave compile_encoder off"
        )
    config = torch._dynamo.config
    # torch counts the programs of all layers together, and gives up after 8.
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # its name before 2.7
    setattr(config, limit, max(getattr(config, limit), _PROGRAMS * len(layers)))
    for layer in layers:
        layer.compile(fullgraph=True, dynamic=True)
