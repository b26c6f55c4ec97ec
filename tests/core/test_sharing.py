"""How many projections there are, how large, who owns them, how they are drawn."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from linformer_fairseq.core import (
    LinformerSelfAttention,
    LinformerSettings,
    build_attention_layers,
    build_shared_projection,
    count_projection_matrices,
    count_projection_parameters,
)
from linformer_fairseq.core.convolution import Convolution
from linformer_fairseq.core.projection import LinearProjection
from linformer_fairseq.core.settings import INITIALISATIONS, SMALLEST_STEP
from tests.core.cases import EVERY_CASE, settings_of

_SIZES = {"embed_dim": 24, "num_heads": 12, "num_layers": 12, "max_positions": 32, "projected_dim": 8}
BASE = {**_SIZES, "projection": "linear"}


def _build(settings: LinformerSettings) -> nn.Module:
    layers, shared = build_attention_layers(settings)
    return nn.ModuleDict({"layers": layers, **({"shared": shared} if shared is not None else {})})


def _projections(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if isinstance(m, LinearProjection | Convolution)]


@pytest.mark.parametrize(
    ("sharing", "expected"), [("none", 288), ("headwise", 24), ("key_value", 12), ("layerwise", 1)]
)
def test_distinct_matrices_for_12_layers_of_12_heads(sharing: str, expected: int) -> None:
    settings = LinformerSettings(**BASE, sharing=sharing)
    assert count_projection_matrices(settings) == expected
    model = _build(settings)
    # Counted in the built model too: each (k, n) slice with storage of its own.
    matrices = [matrix for m in _projections(model) for matrix in m.weight.reshape(-1, 8, 32)]
    assert len({matrix.data_ptr() for matrix in matrices}) == expected


@pytest.mark.parametrize("case", EVERY_CASE)
def test_parameter_totals_follow_the_formula(case: str) -> None:
    settings = settings_of(case)
    model = _build(settings)
    held = sum(m.weight.numel() for m in _projections(model))
    assert held == count_projection_parameters(settings)
    dense = settings.num_layers * 4 * (settings.embed_dim**2 + settings.embed_dim)
    trained = sum(p.numel() for p in model.parameters())
    assert trained == dense + (0 if settings.freeze_projection else held)


@pytest.mark.parametrize("case", EVERY_CASE)
def test_every_parameter_gets_a_gradient(case: str) -> None:
    settings = settings_of(case)
    model = _build(settings)
    x = torch.randn(2, settings.max_positions, settings.embed_dim)
    for layer in model["layers"]:
        x = x + layer(x)[0]  # without the residual all positions become alike, and a gradient can be exactly 0
    x.square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        # Softmax ignores what is added to all of its inputs: the key bias has no influence, in dense attention too.
        # Over one row it is constant, so that E of a head with k = 1 has none either.
        heads = re.fullmatch(r"layers\.(\d+)\.proj_k\.heads\.(\d+)\.weight", name)
        constant = heads is not None and settings.dims[int(heads[1])][int(heads[2])] == 1
        assert p.grad.abs().sum() > 0 or constant or name.endswith("k_proj.bias"), name


@pytest.mark.parametrize("sharing", ["none", "headwise", "key_value", "layerwise"])
@pytest.mark.parametrize(("init", "std"), [("xavier", (1 / (8 + 32)) ** 0.5), ("normal", 0.02), ("jl", 8**-0.5)])
def test_the_spread_of_e_is_what_projection_init_says(sharing: str, init: str, std: float) -> None:
    model = _build(LinformerSettings(**BASE, sharing=sharing, projection_init=init))
    values = torch.cat([m.weight.flatten() for m in _projections(model)])
    assert values.std().item() == pytest.approx(std, rel=0.1)
    assert values.mean().item() == pytest.approx(0, abs=std * 0.2)


@pytest.mark.parametrize("strides", [1, 2])
def test_the_spread_of_kernels_is_that_of_a_convolution(strides: int) -> None:
    """Glorot and Bengio 2010: windows of four; as many outputs for each input as kernels that reach it."""
    words = {"projection": "convolution", "projection_init": "xavier", "kernel_strides": strides}
    model = _build(LinformerSettings(**_SIZES, sharing="none", **words))
    values = torch.cat([m.weight.flatten() for m in _projections(model)])
    assert values.abs().amax().item() == pytest.approx((3 / (4 * strides + strides)) ** 0.5, rel=0.02)
    assert values.std().item() == pytest.approx((1 / (4 * strides + strides)) ** 0.5, rel=0.1)


def test_the_linear_layers_begin_as_in_fairseq() -> None:
    """fairseq's MultiheadAttention: Glorot's uniform distribution, with a gain of 1 / sqrt(2) for q, k and v."""
    layer = _build(LinformerSettings(**BASE))["layers"][0]
    width = layer.out_proj.in_features
    for linear, gain in ((layer.q_proj, 0.5), (layer.k_proj, 0.5), (layer.v_proj, 0.5), (layer.out_proj, 1.0)):
        bound = (gain * 3 / width) ** 0.5
        assert 0.97 * bound < linear.weight.abs().amax().item() <= bound
        assert linear.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert not layer.out_proj.bias.any()


@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("sharing", ["none", "headwise", "key_value", "layerwise"])
@pytest.mark.parametrize("projection", ["linear", "convolution"])
def test_window_means_start_as_mean_pooling(sharing: str, projection: str, step: float) -> None:
    settings = LinformerSettings(
        **_SIZES, sharing=sharing, projection=projection, projection_init="window_means", projection_step=step
    )
    layer = _build(settings)["layers"][3].eval()
    pooled = _build(LinformerSettings(**_SIZES, sharing=sharing, projection="mean_pool"))["layers"][3].eval()
    dense = {name: value for name, value in layer.state_dict().items() if "_proj." in name}
    pooled.load_state_dict({**pooled.state_dict(), **dense})
    x = torch.randn(2, 32, 24)
    torch.testing.assert_close(layer(x)[0], pooled(x)[0])


@pytest.mark.parametrize("projection", ["linear", "convolution"])
@pytest.mark.parametrize("init", INITIALISATIONS)
@pytest.mark.parametrize("k", [1, 16])
def test_with_the_smallest_step_e_begins_within_half_precision(projection: str, init: str, k: int) -> None:
    settings = {**_SIZES, "projected_dim": k, "projection": projection, "projection_init": init}
    model = _build(LinformerSettings(**settings, projection_step=SMALLEST_STEP))
    weights = [projection.weight.half() for projection in _projections(model)]
    assert weights and all(weight.isfinite().all() for weight in weights)
    assert max(float(weight.abs().max()) for weight in weights) > 100


@pytest.mark.parametrize("row_weights", ["free", "affine"])
@pytest.mark.parametrize("strides", [2, 3])
def test_overlapping_kernels_start_as_means_over_all_their_tokens(strides: int, row_weights: str) -> None:
    settings = LinformerSettings(
        **{**_SIZES, "sharing": "key_value", "projection": "convolution", "projection_init": "window_means"},
        **{"row_weights": row_weights, "kernel_strides": strides, "projection_step": 0.5},
    )
    projection = _build(settings)["layers"][0].proj_k
    x = torch.randn(2, 32, 24)
    rows, window = projection(x), 4
    for number in range(8):
        first = number * window - (strides - 1) * window // 2
        tokens = x[:, max(first, 0) : first + strides * window]
        # Beyond the ends of the sequence there are zeros, which an affine row leaves out.
        count = tokens.size(1) if row_weights == "affine" else strides * window
        torch.testing.assert_close(rows[:, number], tokens.sum(dim=1) / count)


def test_heads_and_layers_are_drawn_independently() -> None:
    model = _build(LinformerSettings(**BASE, sharing="none"))
    matrices = torch.cat([m.weight for m in _projections(model)]).flatten(1)
    correlation = torch.corrcoef(matrices) - torch.eye(len(matrices))
    assert correlation.abs().max() < 0.5


def test_a_frozen_projection_is_kept_but_not_trained() -> None:
    for sharing in ("none", "layerwise"):
        model = _build(LinformerSettings(**BASE, sharing=sharing, freeze_projection=True))
        keys = [key for key in model.state_dict() if key.endswith("proj_k.weight") or key == "shared.weight"]
        assert len(keys) == (12 if sharing == "none" else 1)
        assert not [name for name, _ in model.named_parameters() if name in keys]


@pytest.mark.parametrize("layer", [-1, 2])
def test_there_are_as_many_layers_as_the_settings_have(layer: int) -> None:
    settings = LinformerSettings(16, 4, 2, 32, 8, sharing="none")
    with pytest.raises(ValueError, match=f"layer={layer}: expected 0 to 1"):
        LinformerSelfAttention(settings, layer)


def test_a_kind_of_projection_that_nobody_builds_is_not_taken_for_another() -> None:
    settings = LinformerSettings(**BASE)
    object.__setattr__(settings, "projection", "new")
    with pytest.raises(AssertionError, match="new"):
        build_shared_projection(settings)
