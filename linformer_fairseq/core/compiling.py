"""Layers through torch.compile."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compiles each layer in place, at its first call; the state dict keeps its names.

    Layer by layer, not the encoder as a whole: equal layers share what was compiled, so that 12 take as long as one.
    Lengths and batch sizes are symbols: another length does not compile again.
    """
    for layer in layers:
        layer.compile(fullgraph=True, dynamic=True)
