"""The architecture of a model as rows of a table, and the limits that follow from it."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence

from linformer_fairseq.core import (
    LinformerSettings,
    count_projection_matrices,
    count_projection_parameters,
    projection_defaults,
)
from linformer_fairseq.exporting.trained import CheckpointModel
from linformer_fairseq.files.weight_names import ENCODER, LM_HEAD, OUTPUT
from linformer_fairseq.models.options import attention_settings

_NOT_TRAINED = (f"{ENCODER}version", ".signature")
"""Ends of the names of buffers."""
_SHARING = {
    "none": "each head of each layer has its own E and F",
    "headwise": "the heads of a layer share E and F",
    "key_value": "one E = F for each layer",
    "layerwise": "one E = F for all layers",
}
# The model of the paper's experiments (docs/options.md, "Differences from the paper").
_PAPER = {
    "projection": "linear",
    **projection_defaults("linear", frozen=False),
    "attention_start": "random",
    "projection_step": 1.0,
    "kernel_strides": 1,
    "freeze_projection": False,
    "encoder_normalize_before": False,
}
_LEFT_OUT = ("projection_init",)
"""The paper does not say it."""


def settings_of(options: Namespace) -> tuple[LinformerSettings, list[str]]:
    """The settings of the attention, and the remarks on them, such as k that is not below n."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = attention_settings(options)
    return settings, [str(warning.message) for warning in caught]


def count_parameters(model: CheckpointModel, exported: bool = False) -> int:
    """The number of trained parameters, as ``model.parameters()`` would count them.

    Args:
        model: the model.
        exported: count those of transformers' model, whose classifiers have no head for masked tokens.
    """
    settings, _ = settings_of(model.options)
    tied = (OUTPUT,) if not model.options.untie_weights_roberta else ()
    left_out = (LM_HEAD,) if exported and model.head is not None else tied
    total = sum(
        tensor.numel()
        for name, tensor in model.weights.items()
        if not name.startswith(left_out) and not name.endswith(_NOT_TRAINED)
    )
    return total - (count_projection_parameters(settings) if settings.freeze_projection else 0)


def rows(model: CheckpointModel, labels: Sequence[str], exported: bool = False) -> Iterator[tuple[str, str]]:
    """Properties and their values.

    Args:
        model: the model.
        labels: names of the classes, as far as they are known.
        exported: see `count_parameters`.
    """
    options = model.options
    settings, _ = settings_of(options)
    frozen = " (E and F are frozen, and not counted)" if settings.freeze_projection else ""
    yield "parameters", f"{count_parameters(model, exported):,}{frozen}"
    yield "layers", f"{settings.num_layers}"
    yield "width", f"{settings.embed_dim:,}, feed-forward {options.encoder_ffn_embed_dim:,}"
    yield "heads", f"{settings.num_heads}"
    yield "layer norm", "before each sublayer (pre-norm)" if options.encoder_normalize_before else "after each sublayer"
    yield "n, the maximum input length in tokens", f"{settings.max_positions:,}"
    yield "k, the rows that keys and values are projected to", _k(settings)
    yield "projection", settings.projection
    if settings.is_pooling:
        yield "sharing", "no parameters to share"
    else:
        matrices = count_projection_matrices(settings)
        own = f"{matrices:,} {'projection' if matrices == 1 else 'projections'}"
        yield "sharing", f"{settings.sharing}: {_SHARING[settings.sharing]} ({own})"
    yield "vocabulary", f"{model.vocabulary:,} symbols, with the special ones"
    if model.head is not None:
        named = f": {', '.join(labels)}" if labels else " (names not recorded)"
        kind = ("number" if model.outputs == 1 else "numbers") if model.regression else "classes"
        yield "output", f"{model.outputs} {kind}{named}"
    else:
        yield "output", "probabilities of the symbols at masked positions"


def differences(options: Namespace) -> list[str]:
    """Options with other values than in the model of the paper's experiments."""
    return [
        f"`{name}={_text(getattr(options, name))}` (there: `{_text(value)}`)"
        for name, value in _PAPER.items()
        if name not in _LEFT_OUT and getattr(options, name) != value
    ]


def limits(options: Namespace) -> Iterator[str]:
    """What follows from the attention, a sentence each."""
    settings, remarks = settings_of(options)
    n, smallest = settings.max_positions, min(map(min, settings.dims))
    yield f"An input has at most n = {n:,} tokens, special ones included; a longer one raises an error."
    if settings.projection == "linear":
        columns = (
            "all n columns of E, adjacent ones summed"
            if settings.short_inputs == "stretch"
            else "the first T columns of E"
        )
        yield (
            f"Attention is to k projected rows at every length, also for an input of T < k tokens. An input of T < n "
            f"tokens uses {columns}."
        )
    elif settings.short_inputs == "stretch":
        yield (
            f"Attention is to at most k projected rows at every length. Their windows are ceil(T/k) tokens of an "
            f"input of T; with T <= {smallest:,} every token has its own row."
        )
    else:
        yield "The windows of the projection have ceil(n/k) tokens at every length, so a short input has few rows."
    if settings.kernel_strides > 1:
        wider = f"{settings.kernel_strides} times as many in all"
        yield f"Windows overlap: a row also has tokens around its window, {wider}."
    yield (
        "Sequences are padded on the right: projections depend on absolute positions. Other padding is refused, except "
        "in graphs."
    )
    yield (
        "Encoder only: each projected row mixes all positions, so there is no causal form, and the model cannot "
        "generate text from left to right."
    )
    yield from (f"{remark[0].upper()}{remark[1:]}." for remark in remarks)


def _k(settings: LinformerSettings) -> str:
    if len({k for layer in settings.dims for k in layer}) == 1:
        return f"{settings.dims[0][0]:,} in each layer and head"
    if settings.one_dim_per_layer:
        return f"by layer: {', '.join(f'{layer[0]:,}' for layer in settings.dims)}"
    return "by layer and head: " + "; ".join(", ".join(map(str, layer)) for layer in settings.dims)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
