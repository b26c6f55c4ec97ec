"""Linformer's self-attention, the fast path; `reference` holds the same equations written plainly."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .flops import Order, cheapest_order
from .projection import LinearProjection, Projection, RaggedHeads, zero_padding
from .settings import LinformerSettings
from .sharing import build_layer_projections, build_shared_projection
from .signature import check_signature, signature_of


class LateProjection(NamedTuple):
    """What turns T x T scores into scores of projected rows, where no rows were made beforehand."""

    e: Tensor
    """Of the keys: (R, T), or (H, R, T) with one matrix per head."""
    f: Tensor
    """Of the values, likewise."""
    key_bias: Tensor
    """(H, D)."""
    value_bias: Tensor
    """(H, D)."""


class ProjectedSequence(NamedTuple):
    """Keys and values that the positions of a batch of sequences attend to."""

    keys: Tensor
    """(B, H, R, D); (B, H, T, D), without their bias, where ``late`` says how they are projected."""
    values: Tensor
    """Likewise."""
    mask: Tensor | None = None
    """Which rows count: bool (B or 1, H or 1, 1, R); None for all."""
    late: LateProjection | None = None
    """None where keys and values are projected already."""

    def part(self, sequences: slice) -> ProjectedSequence:
        """Keys and values of some of the sequences."""
        mask = self.mask if self.mask is None or self.mask.size(0) == 1 else self.mask[sequences]
        return ProjectedSequence(self.keys[sequences], self.values[sequences], mask, self.late)


class LinformerSelfAttention(nn.Module):
    """Multi-head self-attention to k projected rows of keys and values (equation 7 of the paper).

        K_i = E_i (M X) W_i^K + b^K,   V_i = F_i (M X) W_i^V + b^V       (K, D)
        head_i = softmax(Q_i K_i^T / sqrt(D)) V_i,   Q_i = X W_i^Q + b^Q

    M zeroes padded positions. The bias is added after the projection in every sharing mode, so that with equal
    E's all modes are the same function.

    Args:
        settings: of the whole encoder.
        layer: which of its layers this is, from 0.
        shared: the encoder's projection (`build_shared_projection`), for layerwise sharing only.

    Raises:
        ValueError: ``shared`` is missing, or given where nothing is shared between layers.
    """

    _shared: Projection | None
    signature: Tensor

    def __init__(self, settings: LinformerSettings, layer: int = 0, shared: Projection | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.layer = layer
        # A number of its own, since torch.compile compiles again for each value of what it finds in `forward`: the
        # layer's number would make every layer another program, k does not where layers have the same.
        self._rows = settings.dims[layer][0]
        width = settings.embed_dim
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.proj_k: Projection | RaggedHeads | None = None
        self.proj_v: Projection | RaggedHeads | None = None
        # Held outside nn.Module's registry: the encoder owns the shared projection, and its weight must appear
        # once in parameters() and in the state dict.
        self.__dict__["_shared"] = shared
        needs_shared = settings.shares_between_layers
        if needs_shared != (shared is not None):
            wanted = (
                "needs the encoder's projection: pass shared=build_shared_projection(settings)"
                if needs_shared
                else "shares no projection between layers: leave shared out"
            )
            raise ValueError(f"sharing={settings.sharing} with projection={settings.projection} {wanted}")
        if not needs_shared:
            self.proj_k, self.proj_v = build_layer_projections(settings, layer)
        self.register_buffer("signature", torch.tensor(signature_of(settings, layer)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the dense weights as fairseq's MultiheadAttention does; E and F keep theirs."""
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(linear.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, x: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from every position to the projected rows of all.

        Args:
            x: (B, T, C).
            key_padding_mask: bool (B, T), True at padding; the sequences are padded on the right.
            need_weights: also return P; slower, as P is then stored.

        Returns:
            (B, T, C), and P (B, H, T, K) or None. Outputs at padded positions have no meaning.

        Raises:
            ValueError: T is more than ``max_positions``, or the shapes do not fit.
        """
        projected = self.project(x, key_padding_mask)
        if not need_weights:
            return self.attend(x, projected), None
        heads, weights = self._explicit(x, projected)
        return self._join_heads(heads), weights

    def project(self, x: Tensor, key_padding_mask: Tensor | None = None) -> ProjectedSequence:
        """What positions attend to: keys and values of the k rows that (B, T, C) becomes.

        Args, Raises: as `forward`.
        """
        self._check_shapes(x, key_padding_mask)
        first = self.proj_k if self._shared is None else self._shared
        assert first is not None
        second = first if self.proj_v is None else self.proj_v
        live = first.live_rows(x, key_padding_mask)
        keys, values, late = self._keys_values(first, second, x, key_padding_mask)
        mask = None if live is None else live.unsqueeze(2)
        return ProjectedSequence(self._split_heads(keys), self._split_heads(values), mask, late)

    def attend(self, x: Tensor, projected: ProjectedSequence) -> Tensor:
        """Attention of any positions (B, t, C) of the sequences that ``projected`` was made from: (B, t, C).

        Once keys and values are projected, no position looks at another: a long sequence can be worked through in
        parts.
        """
        if projected.late is not None:
            return self._join_heads(self._explicit(x, projected)[0])
        query = self._split_heads(self.q_proj(x))
        keys, values, mask, _ = projected
        heads = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, dropout_p=self._dropout)
        return self._join_heads(heads)

    @property
    def _dropout(self) -> float:
        return self.settings.attention_dropout if self.training else 0.0

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "signature")
        if stored is not None:
            check_signature(stored, self.signature, prefix.rstrip(".") or "the attention")
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _keys_values(
        self,
        first: Projection | RaggedHeads,
        second: Projection | RaggedHeads,
        x: Tensor,
        padding: Tensor | None,
    ) -> tuple[Tensor, Tensor, LateProjection | None]:
        """Keys and values, (B, R, C), or (B, T, C) and how they are projected; ``first`` is E, ``second`` F."""
        if isinstance(first, RaggedHeads) and self.settings.is_pooling:  # each head has its rows of the whole X
            by_head = [head(x, padding) for head in first.heads]
            return _linear_by_head(by_head, self.k_proj), _linear_by_head(by_head, self.v_proj), None
        if not self.settings.is_pooling:
            x, padding = zero_padding(x, padding), None  # zeros stay zeros through W, and count for nothing in E X
        order = cheapest_order(self.settings, self.layer, x.size(1))
        if order is Order.PROJECTION:
            rows = self._project(first, x, padding)
            others = rows if second is first else self._project(second, x, padding)
            return self.k_proj(rows), self.v_proj(others), None
        keys, values = F.linear(x, self.k_proj.weight), F.linear(x, self.v_proj.weight)
        if order is Order.SCORES:
            assert isinstance(first, LinearProjection) and isinstance(second, LinearProjection)
            e, f = (projection.matrix(self._rows, x.size(1)) for projection in (first, second))
            heads = (self.settings.num_heads, self.settings.head_dim)
            return keys, values, LateProjection(e, f, self.k_proj.bias.view(heads), self.v_proj.bias.view(heads))
        # The sums take the place of the products, for which nothing else has a use.
        keys = self._project(first, keys, padding).add_(self.k_proj.bias)
        return keys, self._project(second, values, padding).add_(self.v_proj.bias), None

    def _project(self, projection: Projection | RaggedHeads, x: Tensor, padding: Tensor | None) -> Tensor:
        if projection is self._shared and isinstance(projection, LinearProjection):
            return projection.first_rows(self._rows, x, padding)
        rows: Tensor = projection(x, padding)
        return rows

    def _explicit(self, x: Tensor, projected: ProjectedSequence) -> tuple[Tensor, Tensor]:
        """Heads (B, H, t, D) of positions (B, t, C), and P (B, H, t, R), which is stored."""
        query = self._split_heads(self.q_proj(x)) * self.settings.head_dim**-0.5
        if projected.late is not None:
            return _attention_through_scores(query, projected.keys, projected.values, projected.late, self._dropout)
        return _explicit_attention(query, projected, self._dropout)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(B, R, C) -> (B, H, R, D), a view."""
        batch, rows, width = x.shape
        heads = self.settings.num_heads
        return x.view(batch, rows, heads, width // heads).transpose(1, 2)

    def _join_heads(self, heads: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, T, C), through W^O."""
        joined: Tensor = self.out_proj(heads.transpose(1, 2).flatten(2))
        return joined

    def _check_shapes(self, x: Tensor, key_padding_mask: Tensor | None) -> None:
        batch, length, width = x.shape
        n = self.settings.max_positions
        if length > n:
            raise ValueError(
                f"the input has {length} positions, but this encoder was built for at most {n}; "
                "shorten the input or build the model with a larger max_positions"
            )
        if width != self.settings.embed_dim:
            raise ValueError(f"the input is {width} wide, but the attention {self.settings.embed_dim}")
        if key_padding_mask is not None and key_padding_mask.shape != (batch, length):
            raise ValueError(
                f"key_padding_mask has shape {tuple(key_padding_mask.shape)}; expected (B, T) = {(batch, length)}"
            )

    def extra_repr(self) -> str:
        s = self.settings
        return f"heads={s.num_heads}, n={s.max_positions}, k={s.dims[self.layer]}, sharing={s.sharing}"


def build_attention_layers(settings: LinformerSettings) -> tuple[nn.ModuleList, Projection | None]:
    """The attention of all layers, and the projection they share, for the caller to own (layerwise sharing)."""
    shared = build_shared_projection(settings)
    layers = [LinformerSelfAttention(settings, layer, shared) for layer in range(settings.num_layers)]
    return nn.ModuleList(layers), shared


def _linear_by_head(rows_by_head: list[Tensor], linear: nn.Linear) -> Tensor:
    """W_i (R_i rows of X) + b_i for each head, stacked: H tensors (B, R_i, C) -> (B, R, C)."""
    weights, biases = linear.weight.chunk(len(rows_by_head)), linear.bias.chunk(len(rows_by_head))
    return RaggedHeads.stack([F.linear(*args) for args in zip(rows_by_head, weights, biases, strict=True)])


def _explicit_attention(query: Tensor, projected: ProjectedSequence, dropout: float) -> tuple[Tensor, Tensor]:
    """What scaled_dot_product_attention computes of a scaled query, with P (B, H, T, R) kept."""
    keys, values, mask, _ = projected
    scores = query @ keys.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = _softmax(scores)
    return F.dropout(weights, dropout).to(values.dtype) @ values, weights


def _attention_through_scores(
    query: Tensor, keys: Tensor, values: Tensor, late: LateProjection, dropout: float
) -> tuple[Tensor, Tensor]:
    """The same where keys and values have T rows: P = softmax((Q K^T) E^T + Q b^K), heads = (P F) V + (P 1) b^V.

    With T below k, T x T scores are smaller than k projected rows of width D. Rows of P sum to 1 without dropout only.
    """
    scores = _times(query @ keys.transpose(-2, -1), late.e.transpose(-2, -1))
    scores = scores.add_((query * late.key_bias.unsqueeze(1)).sum(-1, keepdim=True))
    weights = _softmax(scores)
    kept = F.dropout(weights, dropout).to(values.dtype)
    heads = _times(kept, late.f) @ values
    return heads + kept.sum(-1, keepdim=True) * late.value_bias.unsqueeze(1), weights


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """(B, H, T, A) times (A, Z), or times one matrix per head, (H, A, Z): (B, H, T, Z)."""
    return x @ matrix if matrix.dim() == 2 else torch.einsum("bhta,haz->bhtz", x, matrix)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
