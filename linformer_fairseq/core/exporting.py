"""Models for torch.export, which makes one graph for all lengths."""

from __future__ import annotations

from torch import nn

from .attention import LinformerSelfAttention
from .projection import Projection


def prepare_export(model: nn.Module) -> None:
    """Makes the attention of a model compute the same without choosing by the length of the input.

    The cheapest way depends on the length: how many windows there are, and in which order products are taken. An
    exported graph cannot choose, so it takes the way for n tokens, with at most as many rows as there are tokens.
    """
    for module in model.modules():
        if isinstance(module, Projection | LinformerSelfAttention):
            module.fixed_rows = True
        if isinstance(module, LinformerSelfAttention) and module._shared is not None:
            module._shared.fixed_rows = True  # which only the encoder has registered
