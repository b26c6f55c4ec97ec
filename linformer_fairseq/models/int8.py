"""Linear layers in 8-bit integers, for inference on a CPU."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.ao.nn.quantized.dynamic import Linear
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

from linformer_fairseq.modules import LinformerEncoder

_LAYERS = ("self_attn.q_proj", "self_attn.out_proj", "fc1", "fc2")
"""The linear layers that compute every position. W_k and W_v are also used without their bias, and compute k rows."""


def count_parameters(model: torch.nn.Module) -> int:
    """The number of parameters, with those that `quantize` has made 8-bit integers."""
    packed = [layer for layer in model.modules() if isinstance(layer, Linear)]
    plain = sum(parameter.numel() for parameter in model.parameters())
    return plain + sum(layer.weight().numel() + layer.bias().numel() for layer in packed)


def quantize(model: Any) -> None:
    """Replace linear layers of a model on a CPU by torch's dynamically quantized ones, in place and in its mode.

    Weights become 8-bit integers, with a scale for each output; activations are rounded to 8 bits in each call.

    Raises:
        ValueError: the model is not a Linformer, or its weights are not in float32.
    """
    encoder = model.encoder.sentence_encoder
    if not isinstance(encoder, LinformerEncoder):
        raise ValueError("only a Linformer can be computed in 8-bit integers")
    dtype = encoder.embed_tokens.weight.dtype
    if dtype != torch.float32:
        raise ValueError(f"the weights are {dtype}; 8-bit integers are made of torch.float32: call float() first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces a successor in another package
        for layer in encoder.layers.children():
            quantize_dynamic(layer, dict.fromkeys(_LAYERS, per_channel_dynamic_qconfig), inplace=True)
            layer.train(layer.training)  # the new ones are in training mode
