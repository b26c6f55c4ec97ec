"""fairseq's encoder layer with another self-attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn


class LinformerEncoderLayer(TransformerEncoderLayerBase):
    """The layer is fairseq's; only its attention is built by ``build_attention``.

    Args:
        cfg: fairseq's ``TransformerConfig``.
        build_attention: called once, without arguments, for the layer's attention.
    """

    def __init__(self, cfg: Any, build_attention: Callable[[], nn.Module]) -> None:
        # A plain attribute may be set before nn.Module.__init__; fairseq's __init__ calls the hook below.
        self._build_attention = build_attention
        super().__init__(cfg)
        del self._build_attention

    def build_self_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        return self._build_attention()
