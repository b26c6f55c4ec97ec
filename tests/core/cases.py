"""The settings that the core tests run over, and how to draw their inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from linformer_fairseq.core import PROJECTIONS, SHARINGS, LinformerSettings

WIDTH, HEADS, LAYERS, N, K = 24, 3, 2, 20, 7
"""The last of the seven windows of three positions has two; all heads and layers need only two layers to differ."""

_BASE = {
    **{"embed_dim": WIDTH, "num_heads": HEADS, "num_layers": LAYERS, "max_positions": N, "projected_dim": K},
    # The paper's, where the name of a case does not say otherwise.
    **{"row_weights": "free", "short_inputs": "first_columns"},
}
_WORDS: dict[str, dict[str, object]] = {
    "per_layer": {"projected_dim": [4, 7]},
    "per_head": {"projected_dim": [[7, 4, 1], [2, 2, 2]]},
    "per_head_2": {"projected_dim": [[7, 4, 2], [2, 2, 2]]},
    "frozen": {"freeze_projection": True},
    "affine": {"row_weights": "affine"},
    "stretch": {"short_inputs": "stretch"},
    "step": {"projection_step": 0.05},
    "overlap2": {"kernel_strides": 2},
    "overlap3": {"kernel_strides": 3},
}


def _cases(*names: str) -> dict[str, dict]:
    """The settings that the words of each name mean: sharing, projection, and those of `_WORDS`."""
    found = {}
    for name in names:
        sharing, projection, *words = name.split("-")
        found[name] = {**_BASE, "sharing": sharing, "projection": projection}
        for word in words:
            found[name] |= _WORDS[word]
    return found


ALL_MODES = _cases(*(f"{sharing}-{projection}" for sharing in SHARINGS for projection in PROJECTIONS))
_VARIANTS = _cases(
    *(f"{sharing}-linear-per_layer" for sharing in SHARINGS),
    *("none-convolution-per_layer", "headwise-convolution-per_layer"),
    *("key_value-mean_pool-per_layer", "layerwise-max_pool-per_layer"),
    *(f"none-{projection}-per_head" for projection in PROJECTIONS),
    *("layerwise-max_pool-per_head", "layerwise-linear-frozen", "none-convolution-frozen"),
)
# Pooling is the same code in all modes of sharing.
ROW_WEIGHTS = _cases(
    *(f"{sharing}-{projection}-affine" for sharing in SHARINGS for projection in ("linear", "convolution")),
    *("none-linear-stretch", "layerwise-linear-stretch", "headwise-linear-affine-stretch"),
    *("layerwise-linear-affine-per_layer-stretch", "none-linear-affine-per_head-stretch"),
    *("none-convolution-affine-per_head", "none-convolution-affine-per_head-stretch"),
    *("none-convolution-stretch", "key_value-convolution-stretch", "layerwise-convolution-affine-stretch"),
    *("layerwise-mean_pool-stretch", "none-mean_pool-per_head-stretch", "none-max_pool-stretch"),
    *("key_value-linear-step", "headwise-convolution-affine-step"),
)
"""What rows sum to, how short inputs lie on E, how far E moves."""
OVERLAPPING = _cases(
    *(f"{sharing}-convolution-affine-stretch-overlap2" for sharing in SHARINGS),
    *("layerwise-convolution-overlap2", "layerwise-convolution-stretch-overlap3"),
    *("key_value-convolution-affine-overlap3", "headwise-convolution-affine-stretch-overlap3-step"),
    *("none-convolution-per_layer-overlap2", "none-convolution-affine-per_head_2-stretch-overlap2"),
)
EVERY_CASE = {**ALL_MODES, **_VARIANTS, **ROW_WEIGHTS, **OVERLAPPING}


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
