"""Linformer's attention behind the call that fairseq's encoder layer makes."""

from __future__ import annotations

from fairseq.modules.quant_noise import quant_noise
from torch import Tensor

from linformer_fairseq.core import LinformerSelfAttention, LinformerSettings, Projection


class FairseqSelfAttention(LinformerSelfAttention):
    """`LinformerSelfAttention` with fairseq's signature and quantisation noise on its four linear maps.

    Args:
        settings, layer, shared: as in `LinformerSelfAttention`.
        noise: probability of quantisation noise (``quant_noise_pq``); 0 adds none. E and F get none.
        block_size: its block size (``quant_noise_pq_block_size``).
    """

    def __init__(
        self,
        settings: LinformerSettings,
        layer: int,
        shared: Projection | None,
        noise: float = 0.0,
        block_size: int = 8,
    ) -> None:
        super().__init__(settings, layer, shared)
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            quant_noise(linear, noise, block_size)

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Self-attention of ``query``, (T, B, C).

        Raises:
            ValueError: for attention masks (causal or other) and for attention to another sequence, which
                Linformer does not have: each projected row mixes all positions.
        """
        if attn_mask is not None:
            raise ValueError(
                "attn_mask was given, but Linformer cannot mask single positions or attend causally: "
                "each projected row mixes all positions. Use fairseq's roberta or transformer models for that"
            )
        if key is not query or value is not query:
            raise ValueError("key and value must be the query itself: Linformer's attention is self-attention only")
        return super().forward(query, key_padding_mask, need_weights)
