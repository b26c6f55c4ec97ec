"""The settings that the core tests run over, and how to draw their inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from linformer_fairseq.core import LinformerSettings

WIDTH, HEADS, LAYERS, N, K = 24, 3, 4, 20, 6

_PAPER = {"projection": "linear", "row_weights": "free", "short_inputs": "first_columns"}
_BASE = {
    **{"embed_dim": WIDTH, "num_heads": HEADS, "num_layers": LAYERS, "max_positions": N, "projected_dim": K},
    **_PAPER,  # what a case leaves out
}
PER_LAYER = [6, 4, 3, 7]
PER_HEAD = [[6, 4, 3], [2, 2, 2], [7, 5, 1], [3, 4, 5]]

ALL_MODES: dict[str, dict] = {
    f"{sharing}-{projection}": {**_BASE, "sharing": sharing, "projection": projection}
    for sharing in ("none", "headwise", "key_value", "layerwise")
    for projection in ("linear", "mean_pool", "max_pool", "convolution")
}
VARIANTS: dict[str, dict] = {
    **{
        f"{sharing}-{projection}-per_layer": {
            **_BASE,
            "projected_dim": PER_LAYER,
            "sharing": sharing,
            "projection": projection,
        }
        for sharing in ("none", "headwise", "key_value", "layerwise")
        for projection in ("linear", "mean_pool", "max_pool", "convolution")
        if (sharing, projection) != ("layerwise", "convolution")
    },
    **{
        f"none-{projection}-per_head": {
            **_BASE,
            "projected_dim": PER_HEAD,
            "sharing": "none",
            "projection": projection,
        }
        for projection in ("linear", "mean_pool", "max_pool", "convolution")
    },
    "layerwise-max_pool-per_head": {
        **_BASE,
        "projected_dim": PER_HEAD,
        "sharing": "layerwise",
        "projection": "max_pool",
    },
    "layerwise-linear-frozen": {**_BASE, "sharing": "layerwise", "projection": "linear", "freeze_projection": True},
    "none-convolution-frozen": {**_BASE, "sharing": "none", "projection": "convolution", "freeze_projection": True},
}
_AFFINE, _STRETCH, _STEP = {"row_weights": "affine"}, {"short_inputs": "stretch"}, {"projection_step": 0.05}
ROW_WEIGHTS: dict[str, dict] = {
    **{
        f"{sharing}-{projection}-affine": {**_BASE, "sharing": sharing, "projection": projection, **_AFFINE}
        for sharing in ("none", "headwise", "key_value", "layerwise")
        for projection in ("linear", "convolution")
    },
    "none-linear-stretch": {**_BASE, "sharing": "none", **_STRETCH},
    "layerwise-linear-stretch": {**_BASE, **_STRETCH},
    "headwise-linear-affine-stretch": {**_BASE, "sharing": "headwise", **_AFFINE, **_STRETCH},
    "layerwise-linear-affine-per_layer-stretch": {**_BASE, "projected_dim": PER_LAYER, **_AFFINE, **_STRETCH},
    "none-linear-affine-per_head-stretch": {
        **_BASE,
        "sharing": "none",
        "projected_dim": PER_HEAD,
        **_AFFINE,
        **_STRETCH,
    },
    "none-convolution-affine-per_head": {
        **_BASE,
        "sharing": "none",
        "projection": "convolution",
        "projected_dim": PER_HEAD,
        **_AFFINE,
    },
    **{
        f"{sharing}-{projection}-stretch": {**_BASE, "sharing": sharing, "projection": projection, **_STRETCH}
        for sharing in ("none", "headwise", "key_value", "layerwise")
        for projection in ("mean_pool", "max_pool", "convolution")
    },
    "layerwise-convolution-affine-stretch": {**_BASE, "projection": "convolution", **_AFFINE, **_STRETCH},
    "none-convolution-affine-per_head-stretch": {
        **_BASE,
        "sharing": "none",
        "projection": "convolution",
        "projected_dim": PER_HEAD,
        **_AFFINE,
        **_STRETCH,
    },
    "none-mean_pool-per_head-stretch": {
        **_BASE,
        "sharing": "none",
        "projection": "mean_pool",
        "projected_dim": PER_HEAD,
        **_STRETCH,
    },
    "key_value-linear-step": {**_BASE, "sharing": "key_value", **_STEP},
    "headwise-convolution-affine-step": {
        **_BASE,
        "sharing": "headwise",
        "projection": "convolution",
        **_AFFINE,
        **_STEP,
    },
}
"""What rows sum to, how short inputs lie on E, how far E moves."""
EVERY_CASE = {**ALL_MODES, **VARIANTS, **ROW_WEIGHTS}


def settings_of(case: str, **changes: object) -> LinformerSettings:
    return LinformerSettings(**{**EVERY_CASE[case], **changes})


def randomise(module: nn.Module, seed: int = 0, std: float = 0.2) -> None:
    """Large random weights, biases and buffers alike, so that no term can hide behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data.copy_(torch.randn(tensor.shape, generator=generator) * std)


def padding_mask(lengths: list[int], total: int) -> Tensor:
    return torch.arange(total).unsqueeze(0) >= torch.tensor(lengths).unsqueeze(1)
