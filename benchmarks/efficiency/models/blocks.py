"""Our layer with other attention: n x n attention, which shows how much of our speed is due to the implementation, and
what `performer` and `nystrom` have."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.models.embeddings import Encoder
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core.attention import ProjectedSequence
from linformer_fairseq.core.dot_product import dot_product_attention
from linformer_fairseq.core.layer import LayerParts, encoder_layer


class HeadMaps(nn.Module):
    """The linear maps of multi-head attention, under the names of `LinformerSelfAttention`, and its two steps."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, H, T, D)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def join(self, heads: Tensor) -> Tensor:
        """(B, H, T, D) to (B, T, C), through W^O."""
        out: Tensor = self.out_proj(heads.transpose(1, 2).flatten(2))
        return out

    def project(self, x: Tensor, padding: Tensor | None) -> Any:
        """What all positions of (B, T, C) are to those that attend to them; padding is bool (B, T), True at padding."""
        raise NotImplementedError

    def attend(self, x: Tensor, projected: Any) -> Tensor:
        """Attention of any positions (B, t, C) to all: (B, t, C)."""
        raise NotImplementedError


class RowsSelfAttention(HeadMaps):
    """Softmax attention to the rows that `project` of a subclass returns."""

    dropout = 0.0
    """Of the attention weights, in training."""

    def attend(self, x: Tensor, projected: ProjectedSequence) -> Tensor:
        """Attention of any positions (B, t, C) to all: (B, t, C)."""
        keys, values, mask, *_ = projected
        query = self.split(self.q_proj(x))
        scale, dropout = query.size(-1) ** -0.5, self.dropout if self.training else 0.0
        mixed, _ = dot_product_attention(query, keys, values, mask, scale=scale, dropout=dropout)
        return self.join(mixed)


class DenseSelfAttention(RowsSelfAttention):
    """softmax(Q K^T / sqrt(D)) V over all positions, in the two steps of `LinformerSelfAttention`."""

    def project(self, x: Tensor, padding: Tensor | None) -> ProjectedSequence:
        """Keys and values of all positions of (B, T, C)."""
        mask = None if padding is None else ~padding[:, None, None, :]
        return ProjectedSequence(self.split(self.k_proj(x)), self.split(self.v_proj(x)), mask)


class SharedLayer(nn.Module):
    """The parts of `LinformerEncoderLayer` with other attention."""

    normalize_before = compiled = recompute = False

    def __init__(self, sizes: Sizes, attention: HeadMaps) -> None:
        super().__init__()
        self.self_attn = attention
        self.self_attn_layer_norm = nn.LayerNorm(sizes.width)
        self.fc1, self.fc2 = nn.Linear(sizes.width, sizes.ffn), nn.Linear(sizes.ffn, sizes.width)
        self.final_layer_norm = nn.LayerNorm(sizes.width)
        self.activation_fn = F.gelu
        self.dropout_module: nn.Module = nn.Identity()
        self.activation_dropout_module = nn.Identity()

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """(B, T, C) to (B, T, C), which without gradients overwrites the input."""
        return encoder_layer(cast(LayerParts, self), x, padding, overwrite=True)


def sdpa_in_blocks(sizes: Sizes, n: int, k: int | None) -> Encoder:
    """The dense rival with attention in steps where that is faster and, without gradients, in blocks of positions, as
    in our layer."""
    attention = (DenseSelfAttention(sizes.width, sizes.heads) for _ in range(sizes.layers))
    return Encoder(sizes, n, (SharedLayer(sizes, one) for one in attention))
