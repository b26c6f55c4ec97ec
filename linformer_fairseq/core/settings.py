"""The options of the attention, with their validation."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Checkpoints store the places of these values (signature.py): add new ones at the end, and move or remove none.
SHARINGS = ("none", "headwise", "key_value", "layerwise")
PROJECTIONS = ("linear", "mean_pool", "max_pool", "convolution")
ROW_WEIGHTS = ("free", "affine")
SHORT_INPUTS = ("first_columns", "stretch")

INITIALISATIONS = ("xavier", "normal", "jl", "window_means")
SMALLEST_STEP = 1e-4
"""Of ``projection_step``, by which E is divided when it is stored: in half precision, numbers end at 65,504."""

_WINDOWS = {"row_weights": "free", "short_inputs": "stretch", "projection_init": "window_means"}
PROJECTION_DEFAULTS: dict[str, dict[str, str]] = {
    "linear": {"row_weights": "free", "short_inputs": "first_columns", "projection_init": "xavier"},
    "mean_pool": _WINDOWS,
    "max_pool": _WINDOWS,
    "convolution": _WINDOWS | {"row_weights": "affine"},
}
"""Defaults of each projection for options that are None. ``linear`` is the model of the paper's experiments and of
fairseq's example; for the others, the values that gave the best results (results/learning/README.md)."""

# One k for all; one k per layer; or one k per layer and head.
ProjectedDim = int | list[int] | list[list[int]]


def parse_projected_dim(value: object) -> ProjectedDim:
    """Parses k from a command line (text), a YAML file or Python code (int or lists).

    Raises:
        ValueError: the value is neither an integer, nor a list of integers, nor a list of such lists.
    """
    parsed: Any = value
    if isinstance(value, str):
        try:
            parsed = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # what literal_eval documents
            parsed = None
    if _is_int(parsed):
        return int(parsed)
    if _is_sequence(parsed) and all(map(_is_int, parsed)):
        return list(parsed)
    if _is_sequence(parsed) and all(_is_sequence(row) and all(map(_is_int, row)) for row in parsed):
        return [list(row) for row in parsed]
    raise ValueError(
        f"projected_dim is {value!r}; expected one integer k (128), a list with one k per layer ([128, 64]) "
        "or a list of lists with one k per layer and head ([[128, 64], [64, 32]])"
    )


def largest_dim(value: ProjectedDim) -> int:
    """The largest k of any layer and head."""
    return value if isinstance(value, int) else max(map(largest_dim, value))


def projection_defaults(projection: str, frozen: bool) -> dict[str, str]:
    """The `PROJECTION_DEFAULTS` of a projection; a frozen linear E is drawn from N(0, 1/k), as in theorem 2.

    Raises:
        ValueError: there is no such projection.
    """
    _one_of("projection", projection, PROJECTIONS)
    return PROJECTION_DEFAULTS[projection] | ({"projection_init": "jl"} if frozen and projection == "linear" else {})


def window_length(max_positions: int, rows: int) -> int:
    """Window size of pooling, and stride of a convolution: ceil(n / k)."""
    return -(-max_positions // rows)


def kernel_length(stride: int, strides: int) -> int:
    """Kernel size of a convolution; windows of one token do not overlap."""
    return stride * strides if stride > 1 else 1


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or isinstance(value, float)


def _is_sequence(value: object) -> bool:
    # Sequence, not list: omegaconf's ListConfig is one too.
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) > 0


@dataclass(frozen=True)
class LinformerSettings:
    """The options that determine the attention of a whole encoder.

    Args:
        embed_dim: width C of the encoder.
        num_heads: number of heads H per layer.
        num_layers: number of layers L.
        max_positions: n, the maximum input length; E and F have n columns.
        projected_dim: k; one for all, a list with one per layer, or a list of lists with one per layer and head.
        sharing: which heads and layers use the same E and F (section 4 of the paper, "Parameter sharing").
        projection: type of projection ("General projections" in section 4 of the paper); ``linear`` is the model of the
            paper's experiments. Max pooling and convolution do not commute with W_k and W_v, and the paper does not
            specify the order: here both are applied to X, before W, except convolution with ``sharing=none``, which is
            applied to X W.
        projection_init: initialization of E and F: ``xavier`` (uniform, gain 1/sqrt(2), what fairseq's example
            specifies), ``normal`` (std 0.02, what fairseq's example effectively uses), ``jl`` (N(0, 1/k), as in the
            Johnson-Lindenstrauss lemma behind theorem 2) or ``window_means`` (row i is the mean over the i-th of k
            windows; the weights of a convolution's kernel are 1/size). Default: ``jl`` for a frozen linear E, otherwise
            as in `PROJECTION_DEFAULTS`, as for ``row_weights`` and ``short_inputs``.
        projection_step: learning rate of E and F as a fraction of the model's, from 1e-4 to 1, with Adam and other
            optimizers whose updates do not depend on the size of the gradient.
        row_weights: constraint on the sum of a projected row's weights over the tokens: ``free`` (none, as in the
            paper) or ``affine`` (the sum is 1 at any length; for a convolution, in each window).
        short_inputs: how the n columns of E are used for T < n tokens: ``first_columns`` (only the first T, as in
            fairseq's example; the paper does not specify it) or ``stretch`` (all; adjacent columns are summed). Windows
            of pooling and convolution have ceil(n/k) positions with ``first_columns`` and ceil(T/k) with ``stretch``,
            so that inputs of up to k tokens have one row per token.
        kernel_strides: kernel size of the convolution as a multiple of its stride, which is ceil(n/k) or, with
            ``short_inputs=stretch``, ceil(T/k). 1: the windows do not overlap, as in the paper. Otherwise they extend
            as far to the left as to the right, to within one position; with a stride of 1, they are still one token.
        freeze_projection: keep E and F at their initial values; they are then buffers, not parameters.
        attention_dropout: dropout on the attention probabilities.

    Defaults that depend on ``projection`` are filled in at once, so ``dataclasses.replace(settings, projection=...)``
    keeps those of the old one.

    Raises:
        ValueError: a value is out of range or contradicts another; the message names both.

    Warns:
        UserWarning: k is not below n, or pooling or convolution gives fewer than k rows.
    """

    embed_dim: int
    num_heads: int
    num_layers: int
    max_positions: int
    projected_dim: ProjectedDim
    sharing: str = "layerwise"
    projection: str = "convolution"
    projection_init: str | None = None
    freeze_projection: bool = False
    projection_step: float = 1.0
    row_weights: str | None = None
    short_inputs: str | None = None
    kernel_strides: int = 1
    attention_dropout: float = 0.0
    # k of every layer and head: L tuples of H integers.
    dims: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _one_of("sharing", self.sharing, SHARINGS)
        for name, value in projection_defaults(self.projection, self.freeze_projection).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        _one_of("projection_init", self.projection_init, INITIALISATIONS)
        _one_of("row_weights", self.row_weights, ROW_WEIGHTS)
        _one_of("short_inputs", self.short_inputs, SHORT_INPUTS)
        if not isinstance(self.freeze_projection, bool):
            raise ValueError(f"freeze_projection is {self.freeze_projection!r}; expected True or False")
        if not (_is_number(self.projection_step) and SMALLEST_STEP <= self.projection_step <= 1.0):
            raise ValueError(
                f"projection_step is {self.projection_step!r}; expected a value from {SMALLEST_STEP:g} to 1"
            )
        for name in ("embed_dim", "num_heads", "num_layers", "max_positions", "kernel_strides"):
            value = getattr(self, name)
            if not _is_int(value) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected an integer of at least 1")
        if self.embed_dim % self.num_heads:
            raise ValueError(
                f"{self.num_heads} attention heads do not divide the width {self.embed_dim}; "
                "choose encoder_attention_heads so that it divides encoder_embed_dim"
            )
        if not (_is_number(self.attention_dropout) and 0.0 <= self.attention_dropout < 1.0):
            raise ValueError(f"attention_dropout is {self.attention_dropout!r}; expected a value in [0, 1)")
        object.__setattr__(self, "projected_dim", parse_projected_dim(self.projected_dim))
        object.__setattr__(self, "dims", self._resolve_dims())
        self._check_consistency()

    @property
    def head_dim(self) -> int:
        """D = C / H."""
        return self.embed_dim // self.num_heads

    @property
    def is_pooling(self) -> bool:
        """Whether the projection has no parameters."""
        return self.projection in ("mean_pool", "max_pool")

    @property
    def shares_between_layers(self) -> bool:
        """Whether all layers share one projection with parameters, which the encoder then owns."""
        return self.sharing == "layerwise" and not self.is_pooling

    @property
    def largest_dim(self) -> int:
        """The largest k of any layer and head."""
        return max(map(max, self.dims))

    @property
    def one_dim_per_layer(self) -> bool:
        """Whether all heads of each layer have the same k."""
        return all(len(set(layer)) == 1 for layer in self.dims)

    def _resolve_dims(self) -> tuple[tuple[int, ...], ...]:
        value = self.projected_dim
        per_layer: list[Any] = [value] * self.num_layers if isinstance(value, int) else list(value)
        if len(per_layer) != self.num_layers:
            raise ValueError(
                f"projected_dim lists {len(per_layer)} layers ({value}), but the encoder has {self.num_layers}; "
                "give one entry per layer (encoder_layers)"
            )
        return tuple(self._resolve_layer(layer, entry) for layer, entry in enumerate(per_layer))

    def _resolve_layer(self, layer: int, entry: int | list[int]) -> tuple[int, ...]:
        heads = (entry,) * self.num_heads if isinstance(entry, int) else tuple(entry)
        if len(heads) != self.num_heads:
            raise ValueError(
                f"projected_dim lists {len(heads)} heads for layer {layer} ({entry}), but a layer has "
                f"{self.num_heads}; give one entry per head (encoder_attention_heads)"
            )
        if min(heads) < 1:
            raise ValueError(f"projected_dim (k) is {min(heads)} in layer {layer}; expected at least 1")
        return heads

    def _warn_of_missing_rows(self) -> None:
        """Warns if there are fewer than k windows of ceil(n / k) positions."""
        if self.projection == "linear":
            return
        n = self.max_positions
        for k in sorted({k for layer in self.dims for k in layer if k < n}):
            window = window_length(n, k)
            if (rows := -(-n // window)) < k:
                warnings.warn(
                    f"projection={self.projection}: with projected_dim (k) = {k} and max_positions (n) = {n}, windows "
                    f"of ceil(n/k) = {window} positions give {rows} rows, not k; choose a k that divides n",
                    stacklevel=5,
                )

    def _check_consistency(self) -> None:
        if self.freeze_projection and self.is_pooling:
            raise ValueError(
                f"freeze_projection has nothing to freeze: projection={self.projection} has no parameters; "
                "use projection=linear or convolution, or leave freeze_projection off"
            )
        if self.projection_step != 1 and (self.is_pooling or self.freeze_projection):
            why = "freeze_projection keeps E" if self.freeze_projection else f"projection={self.projection} has no E"
            raise ValueError(f"projection_step={self.projection_step} has nothing to move: {why}; leave it at 1")
        if self.row_weights == "affine" and self.is_pooling:
            raise ValueError(
                f"row_weights=affine does not go with projection={self.projection}, which has no weights; "
                "use projection=linear or convolution, or row_weights=free"
            )
        if self.kernel_strides > 1:
            if self.projection != "convolution":
                raise ValueError(
                    f"kernel_strides={self.kernel_strides} is the size of a convolution's kernel, but "
                    f"projection={self.projection}; use projection=convolution, or leave kernel_strides at 1"
                )
            if self.kernel_strides > (smallest := min(map(min, self.dims))):
                raise ValueError(
                    f"kernel_strides={self.kernel_strides} makes a kernel that is longer than the input with "
                    f"projected_dim (k) = {smallest}; expected at most k"
                )
        if not self.one_dim_per_layer and self.sharing != "none" and not self.is_pooling:
            raise ValueError(
                f"projected_dim={self.projected_dim} gives heads of one layer different k, but "
                f"sharing={self.sharing} gives them one projection; use sharing=none"
            )
        if self.projection == "convolution" and self.sharing == "layerwise" and len(set(self.dims)) > 1:
            raise ValueError(
                f"projected_dim={self.projected_dim} gives layers different k and so convolution kernels of "
                "different lengths, but sharing=layerwise gives them one kernel; use another sharing or one k"
            )
        shared = self.projection == "linear" and self.sharing == "layerwise"
        if shared and self.projection_init == "window_means" and len(set(self.dims)) > 1:
            warnings.warn(
                f"projected_dim={self.projected_dim} gives layers different k: with sharing=layerwise, one with a "
                "smaller k uses the first rows of E, which projection_init=window_means makes means of the beginning "
                "of the input; use another sharing or projection_init",
                stacklevel=4,
            )
        if self.largest_dim >= self.max_positions:
            warnings.warn(
                f"projected_dim (k) = {self.largest_dim} is not below max_positions (n) = {self.max_positions}: "
                "attention is not cheaper than RoBERTa's",
                stacklevel=4,
            )
        self._warn_of_missing_rows()


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
