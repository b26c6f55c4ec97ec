"""A RoBERTa in plain torch, with or without storing the n x n attention probabilities, as was usual in 2020."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.models.embeddings import Encoder
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import prepare_compiler


class SelfAttention(nn.Module):
    """softmax(Q K^T / sqrt(D)) V for all heads."""

    def __init__(self, width: int, heads: int, stores: bool) -> None:
        super().__init__()
        self.heads, self.stores = heads, stores
        self.dropout = 0.0
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """(B, T, C) to (B, T, C)."""
        query, key, value = self.in_proj(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = None if padding is None else ~padding[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        if self.stores:
            # The queries are scaled, not the larger scores, so only scores and probabilities are n x n.
            scores = (query * query.size(-1) ** -0.5) @ key.transpose(-2, -1)
            if seen is not None:
                scores = scores.masked_fill(~seen, float("-inf"))
            mixed = F.dropout(scores.softmax(dim=-1), dropout) @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=dropout)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """Attention and feed-forward network, post-norm."""

    def __init__(self, sizes: Sizes, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.fc1, self.fc2 = nn.Linear(sizes.width, sizes.ffn), nn.Linear(sizes.ffn, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """(B, T, C) to (B, T, C)."""
        x = self.attention_norm(x + self.attention(x, padding))
        out: Tensor = self.norm(x + self.fc2(F.gelu(self.fc1(x))))
        return out


def layer(sizes: Sizes, stores: bool) -> Layer:
    """A layer of the Transformer, which stores P or has torch's fused attention."""
    return Layer(sizes, SelfAttention(sizes.width, sizes.heads, stores))


def materialised(sizes: Sizes, n: int, k: int | None) -> Encoder:
    """The paper's baseline."""
    return Encoder(sizes, n, (layer(sizes, stores=True) for _ in range(sizes.layers)))


def sdpa(sizes: Sizes, n: int, k: int | None) -> Encoder:
    """The dense rival, with torch's fused attention."""
    return Encoder(sizes, n, (layer(sizes, stores=False) for _ in range(sizes.layers)))


def sdpa_compiled(sizes: Sizes, n: int, k: int | None) -> Encoder:
    """The same with compiled layers, like ours."""
    encoder = sdpa(sizes, n, k)
    prepare_compiler(sizes.layers)
    for one in encoder.layers:
        one.compile()
    return encoder
