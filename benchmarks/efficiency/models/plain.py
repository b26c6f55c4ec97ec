"""A RoBERTa in torch alone, with the n x n attention stored, as in 2020, or not."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.models.embeddings import Embeddings, padding_of
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
            # The factor is on the smaller matrix; then scores and probabilities are all that is as large as n x n.
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

    def __init__(self, sizes: Sizes, stores: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(sizes.width, sizes.heads, stores)
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.fc1, self.fc2 = nn.Linear(sizes.width, sizes.ffn), nn.Linear(sizes.ffn, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """(B, T, C) to (B, T, C)."""
        x = self.attention_norm(x + self.attention(x, padding))
        out: Tensor = self.norm(x + self.fc2(F.gelu(self.fc1(x))))
        return out


class Roberta(nn.Module):
    """The encoder: token ids (B, T) to features (B, T, C)."""

    def __init__(self, sizes: Sizes, n: int, stores: bool, compiled: bool = False) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes, n)
        self.layers = nn.ModuleList(Layer(sizes, stores) for _ in range(sizes.layers))
        if compiled:
            prepare_compiler(sizes.layers)
            for layer in self.layers:
                layer.compile()

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        padding, x = padding_of(tokens), self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x, padding)
        return x


def materialised(sizes: Sizes, n: int, k: int | None) -> Roberta:
    """The paper's baseline."""
    return Roberta(sizes, n, stores=True)


def sdpa(sizes: Sizes, n: int, k: int | None) -> Roberta:
    """With torch's fused attention."""
    return Roberta(sizes, n, stores=False)


def sdpa_compiled(sizes: Sizes, n: int, k: int | None) -> Roberta:
    """The same with its layers through torch.compile, as ours."""
    return Roberta(sizes, n, stores=False, compiled=True)
