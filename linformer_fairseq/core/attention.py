"""Linformer's self-attention, optimized; `reference` is a literal implementation of the same equations."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .dot_product import dot_product_attention
from .flops import Order, cheapest_order
from .projection import LinearProjection, Projection, RaggedHeads, zero_padding
from .settings import LinformerSettings
from .sharing import build_layer_projections, build_shared_projection, was_built_for
from .signature import check_signature, signature_of


class ProjectedSequence(NamedTuple):
    """Keys and values that the positions of a batch of sequences attend to."""

    keys: Tensor
    """Projected keys, (B, H, R, D). If ``late`` is given: keys of all positions, without projection and bias, followed
    by the bias b^K, (B, H, T + 1, D)."""
    values: Tensor
    """Likewise for the values, with b^V."""
    mask: Tensor | None = None
    """True for rows that are attended to: bool (B or 1, H or 1, 1, R); None: all."""
    late: tuple[Tensor, Tensor] | None = None
    """E and F, if they are yet to be applied, each with an additional column of ones for the biases: (R, T + 1) or
    (H, R, T + 1); if they differ between sequences, (B, H or 1, R, T + 1)."""
    padded: bool = False
    """Whether there may be padding, so that the next batch has another shape."""

    def part(self, sequences: slice) -> ProjectedSequence:
        """The keys and values of some of the sequences."""
        mask = self.mask if self.mask is None or self.mask.size(0) == 1 else self.mask[sequences]
        late = self.late
        if late is not None and late[0].dim() == 4:
            late = late[0][sequences], late[1][sequences]
        return ProjectedSequence(self.keys[sequences], self.values[sequences], mask, late, self.padded)


class LinformerSelfAttention(nn.Module):
    """Multi-head self-attention to k projected rows of keys and values (equation 7 of the paper).

        K_i = E_i (M X) W_i^K + b^K,   V_i = F_i (M X) W_i^V + b^V       (K, D)
        head_i = softmax(Q_i K_i^T / sqrt(D)) V_i,   Q_i = X W_i^Q + b^Q

    M sets padded positions to zero. The bias is added after the projection in every sharing mode, so that all modes
    compute the same function if their projections are equal.

    Args:
        settings: options of the whole encoder.
        layer: index of this layer, from 0.
        shared: the encoder's projection (`build_shared_projection`), only with ``sharing=layerwise``.

    Raises:
        ValueError: ``shared`` is missing or of other settings, or is given although nothing is shared between layers;
            or there is no such layer.
    """

    _shared: Projection | None
    signature: Tensor
    fixed_rows = False
    """See `Projection.fixed_rows`; the order of the products does not depend on the length then."""

    def __init__(self, settings: LinformerSettings, layer: int = 0, shared: Projection | None = None) -> None:
        super().__init__()
        if not 0 <= layer < settings.num_layers:
            raise ValueError(f"layer={layer}: expected 0 to {settings.num_layers - 1}, the layers of the settings")
        self.settings = settings
        self.layer = layer
        # Stored, because torch.compile recompiles for each value that it finds in `forward`: the layer's index would
        # give every layer another graph; k does not, if the layers have the same.
        self._dims = settings.dims[layer]
        self._rows = self._dims[0]
        width = settings.embed_dim
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.proj_k: Projection | RaggedHeads | None = None
        self.proj_v: Projection | RaggedHeads | None = None
        # Not registered as a submodule: the encoder owns the shared projection, and its weight must appear only once
        # in parameters() and in the state dict.
        self.__dict__["_shared"] = shared
        needs_shared = settings.shares_between_layers
        if needs_shared != (shared is not None):
            wanted = (
                "needs the encoder's projection: pass shared=build_shared_projection(settings)"
                if needs_shared
                else "shares no projection between layers: leave shared out"
            )
            raise ValueError(f"sharing={settings.sharing} with projection={settings.projection} {wanted}")
        if shared is not None and not was_built_for(shared, settings):
            raise ValueError("the shared projection was built from other settings: give one settings object to both")
        if not needs_shared:
            self.proj_k, self.proj_v = build_layer_projections(settings, layer)
        self.register_buffer("signature", torch.tensor(signature_of(settings, layer)))
        self._initialise()

    def reset_parameters(self) -> None:
        """Initializes the linear layers as fairseq's MultiheadAttention does; E and F are not changed.

        To initialize a whole model, call this after ``reset_parameters`` of the modules in it.
        """
        self.signature.copy_(torch.tensor(signature_of(self.settings, self.layer)))  # empty after `to_empty`
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            linear.reset_parameters()  # the bias
        self._initialise()

    def _initialise(self) -> None:
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(linear.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, x: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from every position to the projected keys and values.

        Args:
            x: (B, T, C).
            key_padding_mask: bool (B, T), True at padding; sequences must be padded on the right.
            need_weights: also return the attention probabilities P; slower, because they are then stored.

        Returns:
            The output (B, T, C), and P (B, H, T, R) or None. Outputs at padded positions are undefined.

        Raises:
            ValueError: T is larger than ``max_positions``, the shapes do not match, or the mask is not bool.
        """
        projected = self.project(x, key_padding_mask)
        heads, weights = self._heads(x, projected, need_weights)
        return self._join_heads(heads), weights

    def project(self, x: Tensor, key_padding_mask: Tensor | None = None) -> ProjectedSequence:
        """Projects (B, T, C) and computes the keys and values that positions attend to.

        Args, Raises: as in `forward`.
        """
        self._check_shapes(x, key_padding_mask)
        if self.fixed_rows and key_padding_mask is None:
            key_padding_mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        first = self.proj_k if self._shared is None else self._shared
        assert first is not None
        second = first if self.proj_v is None else self.proj_v
        live = first.live_rows(x, key_padding_mask)
        keys, values, late = self._keys_values(first, second, x, key_padding_mask)
        mask = None if live is None else live.unsqueeze(2)
        padded = key_padding_mask is not None
        return ProjectedSequence(self._split_heads(keys), self._split_heads(values), mask, late, padded)

    def attend(self, x: Tensor, projected: ProjectedSequence) -> Tensor:
        """Computes the attention of any positions (B, t, C) of the sequences that ``projected`` was made from.

        After the projection, positions do not depend on each other, so a long sequence can be processed in parts.

        Returns:
            (B, t, C).
        """
        return self._join_heads(self._heads(x, projected, need_weights=False)[0])

    def key_projection(self, head: int) -> Projection:
        """E of a head, which may be that of the layer or of the whole encoder."""
        projection = self.proj_k if self._shared is None else self._shared
        own = projection.heads[head] if isinstance(projection, RaggedHeads) else projection
        assert isinstance(own, Projection)
        return own

    @property
    def _dropout(self) -> float:
        return self.settings.attention_dropout if self.training else 0.0

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # Not the buffer: averages of models are rounded down in it.
        signature = torch.tensor(signature_of(self.settings, self.layer), device=self.signature.device)
        destination[prefix + "signature"] = signature

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "signature")
        if stored is not None:
            # Not with the buffer, which has no values in a model that is built on the meta device.
            check_signature(stored, signature_of(self.settings, self.layer), prefix.rstrip(".") or "the attention")
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _keys_values(
        self,
        first: Projection | RaggedHeads,
        second: Projection | RaggedHeads,
        x: Tensor,
        padding: Tensor | None,
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """Keys and values (B, R or T + 1, C), and ``late`` of `ProjectedSequence`; ``first`` is E, ``second`` F."""
        if isinstance(first, RaggedHeads) and self.settings.is_pooling:  # each head pools the whole X to its own rows
            self._check_parts()
            by_head = [head(x, padding) for head in first.heads]
            return _linear_by_head(by_head, self.k_proj), _linear_by_head(by_head, self.v_proj), None
        if not self.settings.is_pooling:
            # W without bias maps zeros to zeros, which add nothing; a weight of zero would not remove NaN or infinity.
            x = zero_padding(x, padding)
        order = self._order(x.size(1), hooked=has_hooks(first) or has_hooks(second))
        if order is Order.PROJECTION:
            rows = self._project(first, x, padding)
            others = rows if second is first else self._project(second, x, padding)
            return self.k_proj(rows), self.v_proj(others), None
        keys, values = F.linear(x, self.k_proj.weight), F.linear(x, self.v_proj.weight)
        if order is Order.SCORES:
            assert isinstance(first, LinearProjection) and isinstance(second, LinearProjection)
            early = first.with_ones(self._rows, x.size(1), padding)
            late = early, early if second is first else second.with_ones(self._rows, x.size(1), padding)
            return _append(keys, self.k_proj.bias), _append(values, self.v_proj.bias), late
        keys = _add(self._project(first, keys, padding), self.k_proj.bias, overwrite=not has_hooks(first))
        values = _add(self._project(second, values, padding), self.v_proj.bias, overwrite=not has_hooks(second))
        return keys, values, None

    def _order(self, length: int, hooked: bool) -> Order:
        """The cheapest order of products: one that calls E and F as modules if they are ``hooked``, and W_k and W_v if
        they are not plain linear layers."""
        by_rows = self.settings.sharing != "none" or self.settings.is_pooling
        modules = Order.PROJECTION if by_rows else Order.MAPS  # calls E and F
        if self.fixed_rows:
            return modules
        whole = any(type(linear) is not nn.Linear or has_hooks(linear) for linear in (self.k_proj, self.v_proj))
        if whole:  # quantization noise, pruning, hooks
            if by_rows:
                return modules
            self._check_parts()
        order = cheapest_order(self.settings, self._dims, length)
        return modules if hooked and order is Order.SCORES else order

    def _check_parts(self) -> None:
        """Projections of each head use the weights of W_k and W_v, and would leave out a module in their place."""
        for name in ("k_proj", "v_proj"):
            linear = getattr(self, name)
            if not isinstance(linear, nn.Linear) or type(linear).forward is not nn.Linear.forward:
                raise ValueError(
                    f"{name} is a {type(linear).__name__}, but a projection for each head uses the weight of a "
                    "torch.nn.Linear: leave k_proj and v_proj as they are, or use another sharing and one k per layer"
                )
            if "weight" in vars(linear):  # pruning and weight normalization set it in a hook; parametrizations do not
                raise ValueError(
                    f"the weight of {name} is no parameter, as of a pruned layer, whose hook sets it, but a projection "
                    "for each head does not call the hook: remove it, or use another sharing and one k per layer"
                )
            if has_hooks(linear):
                warnings.warn(
                    f"the hooks of {name} are not called: a projection for each head uses its weight only; with "
                    "another sharing and one k per layer they are",
                    stacklevel=2,
                )

    def _project(self, projection: Projection | RaggedHeads, x: Tensor, padding: Tensor | None) -> Tensor:
        if projection is self._shared and isinstance(projection, LinearProjection):
            rows: Tensor = projection(x, padding, self._rows)
        else:
            rows = projection(x, padding)
        return rows

    def _heads(self, x: Tensor, projected: ProjectedSequence, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Outputs of the heads (B, H, t, D) for positions (B, t, C), and P (B, H, t, R) if requested."""
        scale = self.settings.head_dim**-0.5
        keys, values, mask, late, padded = projected
        attention = partial(
            dot_product_attention, scale=scale, dropout=self._dropout, stored=need_weights, padded=padded
        )
        query = self._split_heads(self.q_proj(x))
        if late is None:
            return attention(query, keys, values, mask)
        # Q (E K)^T = (Q K^T) E^T and P (F V) = (P F) V. For T < k, T x T scores are cheaper than k rows of keys.
        if query.dtype == torch.float16:  # scaled scores fit into it; elsewhere, the kernel scales them at less cost
            query, scale = query * scale, 1.0
        scores = query @ keys.transpose(-2, -1)
        batch = scores.size(0)
        e, f = (m.to(scores.dtype).expand(batch, 1 if m.dim() == 2 else m.size(-3), -1, -1) for m in late)
        mixed, weights = attention(scores, e, f, scale=scale)
        return mixed @ values, weights

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
        if x.dim() != 3 or not x.size(1):
            raise ValueError(f"the input has shape {tuple(x.shape)}; expected (B, T, C) with T of at least 1")
        batch, length, width = x.shape
        n = self.settings.max_positions
        if length > n:
            raise ValueError(
                f"the input has {length} positions, but this encoder was built for at most {n}; "
                "shorten the input or build the model with a larger max_positions"
            )
        if width != self.settings.embed_dim:
            raise ValueError(f"the input is {width} wide, but the attention {self.settings.embed_dim}")
        if key_padding_mask is None:
            return
        if key_padding_mask.dtype != torch.bool:
            raise ValueError(f"key_padding_mask is {key_padding_mask.dtype}; expected torch.bool, True at padding")
        if key_padding_mask.shape != (batch, length):
            raise ValueError(
                f"key_padding_mask has shape {tuple(key_padding_mask.shape)}; expected (B, T) = {(batch, length)}"
            )

    def extra_repr(self) -> str:
        s = self.settings
        return f"heads={s.num_heads}, n={s.max_positions}, k={s.dims[self.layer]}, sharing={s.sharing}"


def build_attention_layers(settings: LinformerSettings) -> tuple[nn.ModuleList, Projection | None]:
    """Builds the attention of all layers, and the shared projection (``sharing=layerwise``) or None.

    The caller has to register the shared projection: the layers do not own it.
    """
    shared = build_shared_projection(settings)
    layers = [LinformerSelfAttention(settings, layer, shared) for layer in range(settings.num_layers)]
    return nn.ModuleList(layers), shared


def _linear_by_head(rows_by_head: list[Tensor], linear: nn.Linear) -> Tensor:
    """Applies W_i and b_i to the R_i rows of each head and stacks the results: H tensors (B, R_i, C) -> (B, R, C)."""
    weights, biases = linear.weight.chunk(len(rows_by_head)), linear.bias.chunk(len(rows_by_head))
    return RaggedHeads.stack([F.linear(*args) for args in zip(rows_by_head, weights, biases, strict=True)])


def has_hooks(module: nn.Module) -> bool:
    """Whether calls of the module are observed, so that it must be called as a whole."""
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    return any(hooks)


def has_output_hooks(module: Any) -> bool:
    """Whether outputs of modules inside this one, or their gradients, are observed.

    Hooks before the call are not asked for: quantization noise, pruning and weight normalization set weights in them.
    As quick as it can be, since every layer asks every time.
    """
    return any(
        part._forward_hooks or part._backward_hooks or part._backward_pre_hooks or has_output_hooks(part)
        for part in module._modules.values()
        if part is not None
    )


def _add(rows: Tensor, bias: Tensor, overwrite: bool) -> Tensor:
    return rows.add_(bias) if overwrite else rows + bias


def _append(rows: Tensor, last: Tensor) -> Tensor:
    """(B, T, C) and (C,) -> (B, T + 1, C)."""
    return torch.cat([rows, last.to(rows.dtype).expand(rows.size(0), 1, -1)], dim=1)
