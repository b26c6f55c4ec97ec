"""Converts checkpoints of fairseq's Linformer example to ours when they are loaded.

They contain ``compress_k`` and ``compress_v`` in each layer's attention (k x n, no bias), or one ``compress_layer`` in
the encoder for all layers, with an unused bias and aliases in every layer; an unused buffer ``version`` in each layer;
and the options ``compressed`` (the ratio n / k), ``shared_kv_compressed``, ``shared_layer_kv_compressed`` and
``freeze_compress`` (0 or 1). As here, the bias of W is added after the projection, so both models compute the same
function on input without padding. The example does not mask padding.
"""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from linformer_fairseq.core import LinformerSettings, projection_options, signature_of
from linformer_fairseq.files.weight_names import ENCODER, OUTPUT, POSITIONS, TOKENS, UNUSED_POSITIONS

from .architectures import BASE, MODEL, fill
from .config import DEFAULTS, Role, with_role

# Buffers that our modules do not have; encoder.sentence_encoder.version belongs to fairseq's encoder and is kept.
_VERSION = re.compile(r"encoder\.(?:sentence_encoder\.layers\.\d+\.)?version")
_OLD_OPTIONS = ("compressed", "shared_kv_compressed", "shared_layer_kv_compressed", "freeze_compress")


def upgrade_legacy_checkpoint(state: dict[str, Any]) -> None:
    """Converts a checkpoint of fairseq's example in place; other checkpoints are not changed.

    Raises:
        ValueError: some of the example's keys are missing.
    """
    weights: dict[str, Tensor] = state["model"]
    if not any("compress_" in key for key in weights):
        return
    options = _read_options(state)
    sharing = _rename_projections(weights, bool(getattr(options, "shared_layer_kv_compressed", 0)))
    rows, columns = next(w for key, w in weights.items() if key.endswith("proj_k.weight")).shape
    output = weights.get(OUTPUT)
    options.max_positions = columns
    options.projected_dim = rows
    options.sharing = sharing
    options.projection = "linear"
    options.freeze_projection = bool(getattr(options, "freeze_compress", 0))
    # Derived from the weights, because these options changed between versions of fairseq.
    options.layernorm_embedding = any("layernorm_embedding." in key or "emb_layer_norm." in key for key in weights)
    options.encoder_normalize_before = ENCODER + "layer_norm.weight" in weights
    options.untie_weights_roberta = output is not None and not torch.equal(output, weights[TOKENS])
    for key in list(filter(_VERSION.fullmatch, weights)):
        del weights[key]
    _add_signatures(weights, options)
    _write_options(state, options)


def complete_options(state: dict[str, Any]) -> None:
    """Adds missing options of the projection to a checkpoint, from its signature, n, from its position embeddings, and
    those of the execution, which can then be given other values.

    Checkpoints that are older than an option, or than a change of its default, keep the values they were trained with.
    n may have been taken from the task, whose blocks can have another length by now.
    """
    signature = state["model"].get(f"{ENCODER}layers.0.self_attn.signature")
    if signature is None or not signature.numel():  # an empty one is refused when it is loaded
        return
    options = _read_options(state)
    fill(options, projection_options(int(signature.flatten()[0])))
    if (positions := state["model"].get(POSITIONS)) is not None:
        fill(options, {"max_positions": positions.size(0) - UNUSED_POSITIONS})
    fill(options, {name: DEFAULTS[name] for name in with_role(Role.EXECUTION)})
    if state.get("args") is not None:
        state["args"] = options
    else:
        state["cfg"]["model"] = vars(options)


def _rename_projections(weights: dict[str, Tensor], shared_by_layers: bool) -> str:
    """Renames E and F; returns the sharing mode according to the keys."""
    by_layer = {key: weights.pop(key) for key in list(weights) if ".self_attn.compress_" in key}
    common = weights.pop(ENCODER + "compress_layer.weight", None)
    weights.pop(ENCODER + "compress_layer.bias", None)  # not used in the forward pass
    if common is None and shared_by_layers:
        common = by_layer.get(ENCODER + "layers.0.self_attn.compress_k.weight")
    if common is not None:
        weights[ENCODER + "proj_k.weight"] = common
        return "layerwise"
    for key, weight in by_layer.items():
        weights[key.replace("compress_", "proj_")] = weight
    if not any(key.endswith("compress_k.weight") for key in by_layer):
        raise ValueError(
            "it has keys of fairseq's Linformer example, but neither compress_layer.weight nor "
            "layers.*.self_attn.compress_k.weight; the file is incomplete"
        )
    return "headwise" if any(key.endswith("compress_v.weight") for key in by_layer) else "key_value"


def _add_signatures(weights: dict[str, Tensor], options: Namespace) -> None:
    fill(options, BASE)
    settings = LinformerSettings(
        embed_dim=options.encoder_embed_dim,
        num_heads=options.encoder_attention_heads,
        num_layers=options.encoder_layers,
        max_positions=options.max_positions,
        projected_dim=options.projected_dim,
        sharing=options.sharing,
        projection="linear",
    )
    for layer in range(settings.num_layers):
        key = f"{ENCODER}layers.{layer}.self_attn.signature"
        weights[key] = torch.tensor(signature_of(settings, layer))


def _read_options(state: dict[str, Any]) -> Namespace:
    """The example's options: flat under ``args`` before fairseq 0.10, under ``cfg.model`` since."""
    if state.get("args") is not None:
        return Namespace(**vars(state["args"]))
    if OmegaConf.is_config(state["cfg"]):
        state["cfg"] = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    model = state["cfg"]["model"]
    return Namespace(**(vars(model) if isinstance(model, Namespace) else model))


def _write_options(state: dict[str, Any], options: Namespace) -> None:
    for name in _OLD_OPTIONS:
        vars(options).pop(name, None)
    if state.get("args") is not None:
        options.arch = MODEL
        state["args"] = options
    else:
        state["cfg"]["model"] = {k: v for k, v in vars(options).items() if k in DEFAULTS} | {"_name": MODEL}
