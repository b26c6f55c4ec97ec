"""Building the projections in the four sharing modes of the paper's section 4.

* ``none``: every head of every layer has its own E and F (2 L H matrices);
* ``headwise``: the heads of a layer share E and share F (2 L);
* ``key_value``: one E = F per layer (L);
* ``layerwise``: one E = F for all layers (1), owned by the encoder.
"""

from __future__ import annotations

from dataclasses import fields

from .convolution import Convolution
from .projection import LinearProjection, Projection, RaggedHeads
from .settings import LinformerSettings, kernel_length, window_length
from .windows import MaxPool, MeanPool

_OF_LAYERS = {"num_heads", "num_layers", "projected_dim", "dims", "attention_dropout"}
"""Settings that a projection of all layers does not depend on, but for the largest k."""


def build_shared_projection(settings: LinformerSettings) -> Projection | None:
    """Builds the projection of ``sharing=layerwise``, for the encoder to own; None if nothing is shared between layers.

    Its k is the largest of all layers; a layer with a smaller k uses its first rows.
    """
    if not settings.shares_between_layers:
        return None
    return _build(settings, settings.largest_dim, settings.embed_dim)


def was_built_for(shared: Projection, settings: LinformerSettings) -> bool:
    """Whether `build_shared_projection` makes the same of these settings; also if ``shared`` is wrapped in a module."""
    built = getattr(shared, "settings", settings)
    names = {field.name for field in fields(settings)} - _OF_LAYERS | {"largest_dim"}
    return all(getattr(built, name) == getattr(settings, name) for name in names)


def build_layer_projections(
    settings: LinformerSettings, layer: int
) -> tuple[Projection | RaggedHeads, Projection | RaggedHeads | None]:
    """Builds the projections of keys and of values that a layer owns; the second is None if E = F.

    For layerwise sharing of a projection with parameters, use `build_shared_projection`.
    """
    key = _build_for_layer(settings, layer)
    has_own_values = settings.sharing in ("none", "headwise") and not settings.is_pooling
    return key, _build_for_layer(settings, layer) if has_own_values else None


def count_projection_matrices(settings: LinformerSettings) -> int:
    """Number of distinct projection matrices: 2LH, 2L, L or 1 (section 4 of the paper); 0 for pooling."""
    if settings.is_pooling:
        return 0
    layers, heads = settings.num_layers, settings.num_heads
    return {"none": 2 * layers * heads, "headwise": 2 * layers, "key_value": layers, "layerwise": 1}[settings.sharing]


def count_projection_parameters(settings: LinformerSettings) -> int:
    """Number of elements in all projections of the encoder, including frozen ones."""
    if settings.is_pooling:
        return 0
    n = settings.max_positions

    def size(rows: int, features: int) -> int:
        if settings.projection == "linear":
            return rows * n
        return features * kernel_length(window_length(n, rows), settings.kernel_strides)

    if settings.sharing == "layerwise":
        return size(settings.largest_dim, settings.embed_dim)
    if settings.sharing == "none":
        return 2 * sum(size(k, settings.head_dim) for layer in settings.dims for k in layer)
    matrices_per_layer = 2 if settings.sharing == "headwise" else 1
    return matrices_per_layer * sum(size(layer[0], settings.embed_dim) for layer in settings.dims)


def _build_for_layer(settings: LinformerSettings, layer: int) -> Projection | RaggedHeads:
    dims = settings.dims[layer]
    if len(set(dims)) > 1:
        return RaggedHeads([_build(settings, k, settings.head_dim) for k in dims])
    heads = settings.num_heads if settings.sharing == "none" else None
    return _build(settings, dims[0], settings.embed_dim, heads)


def _build(settings: LinformerSettings, rows: int, features: int, heads: int | None = None) -> Projection:
    if settings.projection == "mean_pool":
        return MeanPool(rows, settings)
    if settings.projection == "max_pool":
        return MaxPool(rows, settings)
    if settings.projection == "convolution":
        return Convolution(rows, features, settings)
    assert settings.projection == "linear", settings.projection
    return LinearProjection(rows, settings, heads)
