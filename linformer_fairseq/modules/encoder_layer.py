"""fairseq's encoder layer with Linformer's attention, batch first."""

from __future__ import annotations

from typing import Any

from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn
from torch.nn import functional as F

from linformer_fairseq.core import LinformerSelfAttention, LinformerSettings, Projection, encoder_layer


class FairseqEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's layer, its submodules, options and names; its forward pass is `core.encoder_layer`.

    Args:
        cfg: fairseq's ``TransformerConfig``.
        settings, layer, shared: as in `LinformerSelfAttention`.
    """

    compiled = False

    def __init__(self, cfg: Any, settings: LinformerSettings, layer: int, shared: Projection | None) -> None:
        # A plain attribute may be set before nn.Module.__init__; fairseq's __init__ calls the hook below.
        self._attention = (settings, layer, shared)
        super().__init__(cfg)
        del self._attention
        self.recompute = cfg.checkpoint_activations
        if cfg.activation_fn == "gelu":
            # fairseq's own gelu copies to fp32 and back; torch's rounds to the same values without copies.
            self.activation_fn = F.gelu

    def build_self_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        """Quantization noise is applied to the four linear layers, not to E and F."""
        attention = LinformerSelfAttention(*self._attention)
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
            quant_noise(linear, cfg.quant_noise.pq, cfg.quant_noise.pq_block_size)
        return attention

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        overwrite: bool = False,
        first_only: bool = False,
    ) -> Tensor:
        """(B, T, C) to (B, T, C); the mask is bool (B, T), True at padding; other arguments as in `encoder_layer`.

        Raises:
            ValueError: there is an attention mask, causal or other, which Linformer does not support: each projected
                row mixes all positions.
        """
        if attn_mask is not None:
            raise ValueError(
                "attn_mask was given, but Linformer cannot mask single positions or attend causally: "
                "each projected row mixes all positions. Use fairseq's roberta or transformer models for that"
            )
        return encoder_layer(self, x, encoder_padding_mask, overwrite, first_only)
