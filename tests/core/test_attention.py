"""The fast path against the plainly written equations, and what must hold between the modes."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import warnings
from unittest.mock import Mock

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn.utils import parametrize, prune
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils._python_dispatch import TorchDispatchMode

from linformer_fairseq.core import (
    PROJECTIONS,
    LinformerSelfAttention,
    LinformerSettings,
    attention,
    build_attention_layers,
    build_shared_projection,
    convolution,
)
from linformer_fairseq.core.flops import (
    Order,
    cheapest_order,
    feed_forward,
    full_attention,
    linformer_attention,
    orders_of,
)
from linformer_fairseq.core.reference import dense_attention, reference_attention
from linformer_fairseq.core.row_weights import stretched
from tests.core.cases import (
    ALL_MODES,
    EVERY_CASE,
    HEADS,
    LAYERS,
    OVERLAPPING,
    ROW_WEIGHTS,
    WIDTH,
    K,
    N,
    padding_mask,
    randomise,
    settings_of,
)

LENGTHS = [N, 13, 5, 1]


def _layers(case: str, **changes: object):
    layers, shared = build_attention_layers(settings_of(case, **changes))
    for number, module in enumerate([*layers, shared]):
        if module is not None:
            randomise(module, seed=number)
    return layers.eval(), shared


def _gradients(layer: LinformerSelfAttention, shared, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    named = dict(layer.named_parameters())
    if shared is not None:
        named |= {f"shared.{name}": p for name, p in shared.named_parameters()}
    grads = torch.autograd.grad(loss, list(named.values()))
    return dict(zip(named, grads, strict=True))


@pytest.mark.parametrize(
    ("length", "each"),
    [(N, LENGTHS), (11, None), (3, LENGTHS), (N, None), (N, [N - 1, N, N - 2, N])],
    ids=["padded", "eleven", "three_padded", "full", "similar"],
)
@pytest.mark.parametrize("case", EVERY_CASE)
def test_outputs_and_gradients_equal_the_reference(case: str, length: int, each: list[int] | None) -> None:
    layers, shared = _layers(case)
    lengths = [min(length, real) for real in each] if each else None
    mask = padding_mask(lengths, length) if lengths else None
    real = ~mask.unsqueeze(-1) if mask is not None else torch.ones(1, length, 1, dtype=torch.bool)
    for number, layer in enumerate(layers):
        x = torch.randn(4, length, WIDTH, requires_grad=True)
        direction = torch.randn(4, length, WIDTH)
        fast, _ = layer(x, mask)
        plain, probabilities = reference_attention(layer, x, lengths)
        torch.testing.assert_close(fast * real, plain * real, atol=1e-5, rtol=1e-5)
        with torch.inference_mode():  # takes other paths
            without_gradients, _ = layer(x, mask)
        torch.testing.assert_close(without_gradients * real, plain * real, atol=1e-5, rtol=1e-5)

        explicit, weights = layer(x, mask, need_weights=True)
        torch.testing.assert_close(explicit * real, plain * real, atol=1e-5, rtol=1e-5)
        for b, heads in enumerate(probabilities):
            for i, p in enumerate(heads):
                torch.testing.assert_close(weights[b, i, : p.size(0), : p.size(1)], p, atol=1e-5, rtol=1e-5)
                assert (weights[b, i, : p.size(0), p.size(1) :] == 0).all(), "masked rows got attention"

        loss_fast, loss_plain = (fast * real * direction).sum(), (plain * real * direction).sum()
        got, expected = _gradients(layer, shared, loss_fast), _gradients(layer, shared, loss_plain)
        for name in expected:
            torch.testing.assert_close(
                got[name], expected[name], atol=1e-4, rtol=1e-4, msg=f"layer {number} {name}: gradients differ"
            )


@pytest.mark.parametrize("case", {**ALL_MODES, **ROW_WEIGHTS, **OVERLAPPING})
def test_gradients_equal_the_reference_to_rounding_in_double_precision(case: str) -> None:
    layers, shared = _layers(case)
    layer = layers[1].double()
    if shared is not None:
        shared.double()
    x = torch.randn(4, 17, WIDTH, dtype=torch.double)
    lengths = [17, 9, 4, 1]
    mask = padding_mask(lengths, 17)
    real = ~mask.unsqueeze(-1)
    fast, plain = layer(x, mask)[0] * real, reference_attention(layer, x, lengths)[0]
    torch.testing.assert_close(fast, plain, atol=1e-12, rtol=1e-10)
    direction = torch.randn_like(x)
    got = _gradients(layer, shared, (fast * direction).sum())
    expected = _gradients(layer, shared, (plain * direction).sum())
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("length", [N, N - 3, 1])
def test_a_convolution_gives_the_same_by_onednn_and_by_product_and_sum(
    length: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, projection = _layers("layerwise-convolution-affine-stretch")
    projection.to(dtype)
    mask = padding_mask([length, max(1, length - 4), 1], length)
    x = torch.randn(3, length, WIDTH).to(dtype).masked_fill(mask.unsqueeze(-1), 0.0)
    for padding in (mask, None):
        found = []
        for fast in (True, False):
            monkeypatch.setattr(convolution, "_convolves_fast", lambda _, fast=fast: fast)
            with torch.no_grad():
                found.append(projection(x, padding))
        tolerance = 1e-6 if dtype == torch.float32 else 0.02
        torch.testing.assert_close(*found, atol=tolerance, rtol=tolerance)


LINEAR = [case for case in EVERY_CASE if "linear" in case]


def _orders_of(case: str, length: int) -> list[Order]:
    settings = settings_of(case)
    return [order for order in Order if order in orders_of(settings, settings.dims[1], length)]


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize(("case", "order"), [(case, order) for case in LINEAR for order in _orders_of(case, 7)])
def test_every_order_of_products_is_the_same_function(
    monkeypatch: pytest.MonkeyPatch, case: str, order: Order, padded: bool
) -> None:
    monkeypatch.setattr(attention, "cheapest_order", lambda *_: order)
    layers, shared = _layers(case)
    layer = layers[1].double()
    if shared is not None:
        shared.double()
    lengths = [7, 4, 1] if padded else [7, 7, 7]
    mask = padding_mask(lengths, 7) if padded else None
    real = ~padding_mask(lengths, 7).unsqueeze(-1)
    x, direction = (torch.randn(3, 7, WIDTH, dtype=torch.double) for _ in range(2))
    plain, probabilities = reference_attention(layer, x, lengths)
    fast, weights = layer(x, mask, need_weights=True)
    torch.testing.assert_close(layer(x, mask)[0] * real, plain, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(fast * real, plain, atol=1e-12, rtol=1e-10)
    for b, heads in enumerate(probabilities):
        for i, p in enumerate(heads):
            torch.testing.assert_close(weights[b, i, : lengths[b], : p.size(1)], p, atol=1e-12, rtol=1e-10)
    got = _gradients(layer, shared, (layer(x, mask)[0] * real * direction).sum())
    expected = _gradients(layer, shared, (plain * direction).sum())
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize(
    ("sharing", "length", "order"),
    [
        ("layerwise", 512, Order.PROJECTION),
        ("layerwise", 119, Order.PROJECTION),
        ("layerwise", 118, Order.MAPS),
        ("key_value", 118, Order.MAPS),
        ("headwise", 128, Order.PROJECTION),
        ("headwise", 127, Order.MAPS),
        ("layerwise", 85, Order.MAPS),
        ("layerwise", 84, Order.SCORES),
        ("none", 512, Order.MAPS),
        ("none", 28, Order.SCORES),
    ],
)
def test_the_order_with_the_fewest_multiplications_is_taken(sharing: str, length: int, order: Order) -> None:
    settings = LinformerSettings(768, 12, 12, 512, 128, sharing, "linear")
    assert cheapest_order(settings, settings.dims[3], length) is order


@pytest.mark.parametrize(
    ("case", "rows"), [("headwise-linear", K), ("key_value-linear", K), ("layerwise-linear", K), ("none-mean_pool", 1)]
)
def test_hooks_on_the_linear_maps_see_short_inputs_too(case: str, rows: int) -> None:
    layers, _ = _layers(case)
    x, seen = torch.randn(2, 3, WIDTH), []
    expected = layers[0](x)[0]
    for linear in (layers[0].k_proj, layers[0].v_proj):
        linear.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    torch.testing.assert_close(layers[0](x)[0], expected)
    assert seen == [(2, rows, WIDTH)] * 2, "quantisation noise is such a hook"
    layers, _ = _layers(case)
    layers[0].k_proj = torch.nn.Sequential(layers[0].k_proj)  # as LoRA and others put a module in its place
    torch.testing.assert_close(layers[0](x)[0], expected)


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hooks_on_the_linear_maps_see_short_inputs_too(register: str) -> None:
    layers, _ = _layers("layerwise-linear")
    seen = []
    for linear in (layers[0].k_proj, layers[0].v_proj):
        getattr(linear, register)(lambda *args: seen.append(1))
    layers[0](torch.randn(2, 3, WIDTH))[0].sum().backward()
    assert len(seen) == 2


@pytest.mark.parametrize("case", ["none-linear", "none-convolution", "none-mean_pool-per_head"])
def test_what_takes_the_place_of_the_linear_maps_is_not_left_out_in_silence(case: str) -> None:
    layers, _ = _layers(case)
    x = torch.randn(2, 9, WIDTH)
    layers[0].v_proj.register_forward_hook(lambda module, args, output: output + 1)
    with pytest.warns(UserWarning, match="v_proj"):
        layers[0](x)
    prune.l1_unstructured(layers[0].k_proj, "weight", 0.5)
    with pytest.raises(ValueError, match="the weight of k_proj is no parameter"):
        layers[0](x)
    layers[0].k_proj = torch.nn.Sequential(layers[0].k_proj)
    with pytest.raises(ValueError, match="k_proj is a Sequential"):
        layers[0](x)
    layers[0].k_proj = _Doubled(WIDTH, WIDTH)
    with pytest.raises(ValueError, match="k_proj is a _Doubled"):
        layers[0](x)


@pytest.mark.parametrize("case", ["layerwise-linear", "none-linear", "none-convolution"])
def test_parametrized_linear_maps_are_used(case: str) -> None:
    layers, _ = _layers(case)
    x = torch.randn(2, 9, WIDTH)
    before = layers[0](x)[0]
    parametrize.register_parametrization(layers[0].v_proj, "weight", _Halves())
    with torch.no_grad():
        layers[0].v_proj.parametrizations.weight.original.mul_(2)
    torch.testing.assert_close(layers[0](x)[0], before)


class _Halves(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


class _Doubled(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize("length", [2, N])
@pytest.mark.parametrize("case", ["layerwise-linear", "headwise-linear", "none-linear", "none-convolution"])
def test_hooks_on_the_projection_are_called_and_see_its_own_output(case: str, length: int) -> None:
    layers, shared = _layers(case)
    x = torch.randn(2, length, WIDTH, requires_grad=True)
    expected = layers[0](x)[0]
    projection = layers[0].proj_k if shared is None else shared
    seen = []
    projection.register_forward_hook(lambda module, args, output: seen.append((output, output.clone())))
    with torch.no_grad():
        torch.testing.assert_close(layers[0](x)[0], expected)
    assert seen and all(torch.equal(*pair) for pair in seen)
    projection.register_full_backward_hook(lambda *args: seen.append("gradient"))
    layers[0](x)[0].sum().backward()
    assert "gradient" in seen


@pytest.mark.parametrize("length", [2, N])
@pytest.mark.parametrize("case", ["headwise-linear", "none-linear", "none-convolution"])
def test_a_hook_on_the_projection_of_values_alone_sees_its_own_output(case: str, length: int) -> None:
    layers, _ = _layers(case)
    seen = []
    layers[0].proj_v.register_forward_hook(lambda module, args, output: seen.append((output, output.clone())))
    with torch.no_grad():
        layers[0](torch.randn(2, length, WIDTH))
    assert seen and all(torch.equal(*pair) for pair in seen)


@pytest.mark.parametrize("length", [2, N])
@pytest.mark.parametrize("case", ["layerwise-linear", "headwise-linear", "none-linear", "none-convolution"])
def test_a_pruned_projection_is_trained(case: str, length: int) -> None:
    layers, shared = _layers(case)
    projection = layers[0].proj_k if shared is None else shared
    prune.l1_unstructured(projection, "weight", 0.5)
    x = torch.randn(2, length, WIDTH)
    for _ in range(2):  # the second would fail with the weights of the first
        layers[0](x)[0].pow(2).sum().backward()
    assert projection.weight_orig.grad is not None
    projection.weight_orig.data.zero_()
    bias_alone, _ = layers[0](x)
    projection.weight.data.zero_()
    torch.testing.assert_close(layers[0](x)[0], bias_alone)
    if shared is not None or length == 2:
        torch.testing.assert_close(bias_alone, bias_alone[:, :1].expand_as(bias_alone), msg="keys are all the bias")


def test_scores_of_short_inputs_fit_into_half_precision() -> None:
    settings = LinformerSettings(WIDTH, HEADS, 1, N, N, "key_value", "linear")
    torch.manual_seed(0)
    layer = LinformerSelfAttention(settings).half()
    assert layer._order(3, hooked=False) is Order.SCORES
    x = 150 * torch.randn(2, 3, WIDTH).half()
    q, k = layer.q_proj(x).float(), layer.k_proj(x).float()
    head = WIDTH // HEADS
    largest = max((q[..., i : i + head] @ k[..., i : i + head].mT).abs().max() for i in range(0, WIDTH, head))
    assert torch.finfo(torch.float16).max < largest < head**0.5 * torch.finfo(torch.float16).max
    assert layer(x)[0].isfinite().all()


def test_an_average_of_a_model_has_its_settings() -> None:
    model = LinformerSelfAttention(LinformerSettings(WIDTH, HEADS, 1, 354, 88, "key_value", "linear"))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9999), use_buffers=True)
    for _ in range(100):
        average.update_parameters(model)
    model.load_state_dict(average.module.state_dict())


_OF_E: dict[str, object] = {
    **{"embed_dim": 2 * WIDTH, "max_positions": N + 1, "projected_dim": K - 2},
    **{"projection": "linear", "projection_init": "normal", "freeze_projection": True, "projection_step": 0.5},
    **{"row_weights": "affine", "short_inputs": "stretch", "kernel_strides": 2},
}
"""Other values than `_SHARED` has of each setting that makes another E."""
_OF_LAYERS: dict[str, object] = {"num_heads": 2 * HEADS, "num_layers": LAYERS + 1, "attention_dropout": 0.5}
_SHARED = "layerwise-convolution"


def test_every_setting_is_one_of_e_or_of_layers() -> None:
    names = {field.name for field in dataclasses.fields(LinformerSettings) if field.init}
    assert names == {*_OF_E, *_OF_LAYERS, "sharing"}


@pytest.mark.parametrize("name", _OF_E)
def test_a_shared_projection_of_other_settings_is_refused(name: str) -> None:
    other = build_shared_projection(settings_of(_SHARED, **{name: _OF_E[name]}))
    with pytest.raises(ValueError, match="other settings"):
        LinformerSelfAttention(settings_of(_SHARED), 0, other)


@pytest.mark.parametrize("name", _OF_LAYERS)
def test_a_shared_projection_fits_layers_that_differ_in_other_settings(name: str) -> None:
    shared = build_shared_projection(settings_of(_SHARED, **{name: _OF_LAYERS[name]}))
    LinformerSelfAttention(settings_of(_SHARED), 0, shared)
    LinformerSelfAttention(settings_of(_SHARED), 0, torch.nn.Sequential(shared))  # a module around it


def test_weights_are_loaded_into_a_model_without_values() -> None:
    layers, _ = _layers("none-linear")
    with torch.device("meta"):
        empty, _ = build_attention_layers(settings_of("none-linear"))
    empty.load_state_dict(layers.state_dict(), assign=True)
    x = torch.randn(2, 9, WIDTH)
    assert torch.equal(empty[1](x)[0], layers[1](x)[0])
    with torch.device("meta"):
        other, _ = build_attention_layers(settings_of("none-linear", max_positions=N + 1))
    with pytest.raises(ValueError, match=f"= {N}, .*= {N + 1}, "):
        other.load_state_dict(layers.state_dict(), assign=True)


def test_parameters_that_are_initialised_late_can_be_saved_and_loaded() -> None:
    with torch.device("meta"):
        late, _ = build_attention_layers(settings_of("none-linear"))
    late.to_empty(device="cpu")
    for tensor in late.parameters():
        tensor.data.fill_(math.nan)
    for module in reversed([*late.modules()]):
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    layers, _ = _layers("none-linear")
    layers.load_state_dict(late.state_dict())
    assert torch.equal(late[1].signature, layers[1].signature)
    x = torch.randn(2, 9, WIDTH)
    assert torch.equal(layers[1](x)[0], late[1](x)[0]) and late[1](x)[0].isfinite().all()
    assert late[0].q_proj.weight.abs().max() < (6 / (2 * WIDTH) / 2) ** 0.5, "Xavier's, not that of nn.Linear"


def test_weights_without_values_are_loaded() -> None:
    layers, _ = _layers("none-linear")
    with torch.device("meta"):
        empty, _ = build_attention_layers(settings_of("none-linear"))
    layers.load_state_dict(empty.state_dict(), assign=True)
    assert all(parameter.is_meta for parameter in layers.parameters())


@pytest.mark.parametrize("case", EVERY_CASE)
def test_shapes_are_known_without_values(case: str) -> None:
    with torch.device("meta"):
        layers, _ = build_attention_layers(settings_of(case))
        out, weights = layers[0](torch.randn(3, N, WIDTH), torch.zeros(3, N, dtype=torch.bool), need_weights=True)
    assert out.shape == (3, N, WIDTH)
    assert weights.shape[:3] == (3, HEADS, N)
    with FakeTensorMode(allow_non_fake_inputs=True):
        layers, _ = build_attention_layers(settings_of(case))
        for grad in (False, True):
            with torch.set_grad_enabled(grad):
                fake, _ = layers[0](torch.randn(3, N, WIDTH), torch.zeros(3, N, dtype=torch.bool))
            assert fake.shape == (3, N, WIDTH)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's fused kernel takes the sequences in turn
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", [case for case in EVERY_CASE if "max_pool" not in case])
def test_gradients_of_each_sequence_by_vmap(case: str, dtype: torch.dtype) -> None:
    layers, _ = _layers(case)
    layer = layers[0].to(dtype)
    if layer._shared is not None:
        layer._shared.to(dtype)
    x, mask = torch.randn(3, N, WIDTH, dtype=dtype), padding_mask([N, 6, 2], N)

    def loss(one: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        out = layer(one[None], padding[None])[0]
        return out.masked_fill(padding[None, :, None], 0).float().square().sum()

    found = torch.func.vmap(torch.func.grad(loss))(x, mask)
    expected = torch.stack([torch.func.grad(loss)(*pair) for pair in zip(x, mask, strict=True)])
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    with torch.no_grad():
        rows = torch.func.vmap(lambda one, padding: layer(one[None], padding[None])[0][0])(x, mask)
        torch.testing.assert_close(rows[~mask], layer(x, mask)[0][~mask], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("signature", [[], [0, 0, N], [0, 9, N, K], [0, 0], [0.5, 0.0, float("nan"), 7.0]])
def test_a_damaged_signature_is_named(signature: list[float]) -> None:
    layers, _ = _layers("headwise-linear")
    state = layers.state_dict() | {"1.signature": torch.tensor(signature)}
    with pytest.raises(ValueError, match=r"1\.signature is \["):
        layers.load_state_dict(state)


def test_short_inputs_cost_little_more_than_dense_attention() -> None:
    settings = LinformerSettings(768, 12, 12, 512, 256, projection="linear")
    for length in range(8, 513):
        ours = linformer_attention(settings, 0, length).total + feed_forward(768, 3072, length)
        dense = full_attention(768, length) + feed_forward(768, 3072, length)
        assert ours / dense < 1.09, length


@pytest.mark.parametrize("length", [N, 3])
@pytest.mark.parametrize("case", ALL_MODES)
def test_bf16_is_within_its_rounding(case: str, length: int) -> None:
    layers, shared = _layers(case)
    layer = layers[0]
    randomise(layer, std=0.2)
    x = torch.randn(2, length, WIDTH).bfloat16()
    for module in (layer, shared):
        if module is not None:
            module.bfloat16()
    fast, _ = layer(x)
    for module in (layer, shared):
        if module is not None:
            module.double()
    exact, _ = reference_attention(layer, x.double())
    error = (fast.double() - exact).norm() / exact.norm()
    # Each of the five products in a row rounds to 8 bits: 2^-9 relative each, a little more together.
    assert error < 0.02, f"relative error {error:.4f}"


@pytest.mark.parametrize("largest", [0, 1 << 17], ids=["fused", "in_steps"])
@pytest.mark.parametrize("case", ALL_MODES)
def test_bf16_trains_within_its_rounding(case: str, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linformer_fairseq.core.dot_product._LARGEST_IN_TRAINING", largest)
    monkeypatch.setattr("linformer_fairseq.core.dot_product._MOST_ROWS_IN_TRAINING", 0)
    fused = Mock(wraps=torch.nn.functional.scaled_dot_product_attention)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", fused)
    layers, shared = _layers(case)
    layer = layers[0]
    randomise(layer, std=0.2)
    lengths = [N, 9, 2]
    mask = padding_mask(lengths, N)
    x = torch.randn(3, N, WIDTH).bfloat16()
    gradients = []
    for dtype in (torch.bfloat16, torch.double):
        for module in (layer, shared):
            if module is not None:
                module.to(dtype)
        layer.zero_grad()
        inputs = x.detach().to(dtype, copy=True).requires_grad_()
        out, _ = layer(inputs, mask) if dtype == torch.bfloat16 else reference_attention(layer, inputs, lengths)
        (out[~mask].square().sum()).backward()
        assert inputs.grad is not None and layer.q_proj.weight.grad is not None
        gradients.append(torch.cat([inputs.grad.double().flatten(), layer.q_proj.weight.grad.double().flatten()]))
    assert fused.called == (largest == 0)
    error = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert error < 0.04, f"relative error {error:.4f}"


def test_k_equal_n_with_identity_is_dense_attention() -> None:
    for sharing in ("none", "headwise", "key_value", "layerwise"):
        with pytest.warns(UserWarning, match=f"= {N} is not below max_positions"):
            layers, shared = _layers(f"{sharing}-linear", projected_dim=N)
        layer = layers[0]
        for module in (layer.proj_k, layer.proj_v, shared):
            if module is not None:
                module.weight.data.copy_(torch.eye(N).expand_as(module.weight))
        x = torch.randn(3, N, WIDTH)
        torch.testing.assert_close(layer(x)[0], dense_attention(layer, x), atol=1e-5, rtol=1e-5)
        multihead = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        multihead.in_proj_weight.data = torch.cat([p.weight.data for p in (layer.q_proj, layer.k_proj, layer.v_proj)])
        multihead.in_proj_bias.data = torch.cat([p.bias.data for p in (layer.q_proj, layer.k_proj, layer.v_proj)])
        multihead.out_proj.weight.data, multihead.out_proj.bias.data = layer.out_proj.weight, layer.out_proj.bias
        torch.testing.assert_close(layer(x)[0], multihead(x, x, x)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_with_equal_projections_all_sharing_modes_agree(projection: str) -> None:
    x, lengths = torch.randn(3, N, WIDTH), [N, 9, 2]
    mask = padding_mask(lengths, N)
    # One kernel for all channels: the only convolution that does not care whether W comes before or after it.
    window = -(-N // K)
    weight = 0.3 * (torch.randn(window) if projection == "convolution" else torch.randn(K, N))
    outputs = []
    for sharing in ("none", "headwise", "key_value", "layerwise"):
        layers, shared = build_attention_layers(settings_of(f"{sharing}-{projection}"))
        layer = layers[0].eval()
        generator = torch.Generator().manual_seed(5)
        for linear in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
            for p in linear.parameters():
                p.data = torch.randn(p.shape, generator=generator) * 0.3
        for owner in (layer.proj_k, layer.proj_v, shared):
            for p in owner.parameters() if owner is not None else ():
                p.data.copy_(weight.expand_as(p))
        outputs.append(layer(x, mask)[0] * ~mask.unsqueeze(-1))
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", EVERY_CASE)
def test_a_wholly_padded_sequence_gives_finite_outputs_and_gradients(case: str) -> None:
    layers, _ = _layers(case)
    mask = padding_mask([7, 0], 7)
    x = torch.randn(2, 7, WIDTH, requires_grad=True)
    out, weights = layers[1](x, mask, need_weights=True)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 7))


@pytest.mark.parametrize("grad", [True, False], ids=["gradients", "inference"])
@pytest.mark.parametrize("garbage", [1e4, math.nan])
@pytest.mark.parametrize("case", {**ALL_MODES, **ROW_WEIGHTS, **OVERLAPPING})
def test_garbage_at_padded_positions_changes_nothing(case: str, garbage: float, grad: bool) -> None:
    layers, _ = _layers(case)
    for length in (N, 12, 3):
        mask = padding_mask([length, (length + 1) // 2, 1], length)
        x = torch.randn(3, length, WIDTH)
        noisy = torch.where(mask.unsqueeze(-1), torch.full_like(x, garbage), x)
        with torch.set_grad_enabled(grad):
            out, expected = layers[0](noisy, mask)[0], layers[0](x, mask)[0]
        torch.testing.assert_close(out[~mask], expected[~mask])


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
@pytest.mark.parametrize("case", ALL_MODES)
def test_a_mask_that_is_not_bool_is_refused(case: str, dtype: torch.dtype) -> None:
    """``~`` of an integer is no negation, and 1 - attention_mask of a tokenizer is one."""
    layers, _ = _layers(case)
    with pytest.raises(ValueError, match="expected torch.bool, True at padding"):
        layers[0](torch.randn(2, 6, WIDTH), padding_mask([6, 2], 6).to(dtype))


@pytest.mark.parametrize("case", ALL_MODES)
def test_no_sequences_and_no_positions(case: str) -> None:
    """The last shard of a batch may be empty; a sequence may not."""
    layers, _ = _layers(case)
    for length in (N, 5):
        for mask in (None, torch.zeros(0, length, dtype=torch.bool)):
            assert layers[0](torch.randn(0, length, WIDTH), mask)[0].shape == (0, length, WIDTH)
    for shape in ((2, 0, WIDTH), (5, WIDTH)):
        with pytest.raises(ValueError, match="expected \\(B, T, C\\)"):
            layers[0](torch.randn(shape))


@pytest.mark.parametrize("case", EVERY_CASE)
def test_probabilities_are_not_stored_unless_asked_for(case: str) -> None:
    layers, _ = _layers(case)
    batch, shapes = 5, set()

    class Shapes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            shapes.update(t.shape for t in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(t))
            return out

    x, mask = torch.randn(batch, N, WIDTH), padding_mask([N, 9, 9, 2, 1], N)
    with Shapes():
        out, nothing = layers[0](x, mask)
        out.sum().backward()
    assert nothing is None
    seen = set(shapes)
    _, weights = layers[0](x, mask, need_weights=True)
    assert weights.shape[:3] == (batch, HEADS, N)
    assert weights.shape not in seen
    with Shapes():
        layers[0](x, mask, need_weights=True)
    assert weights.shape in shapes, "the check itself must be able to see it"


@pytest.mark.parametrize("length", [N, 4])  # with 4 tokens, E is applied to the scores
@pytest.mark.parametrize("case", [case for case in ROW_WEIGHTS if "affine" in case])
def test_affine_rows_of_equal_tokens_are_that_token(case: str, length: int) -> None:
    """Weights that sum to one over the tokens, however many there are: only these leave a constant as it is."""
    layers, _ = _layers(case)
    token = torch.randn(WIDTH)
    mask = padding_mask([min(length, tokens) for tokens in (N, 9, 2, 1)], length)
    for layer in layers:
        keys = layer.project(token.expand(4, length, WIDTH), mask)
        if keys.late is not None:
            (e, f), ones = keys.late, (~mask).float()
            for matrix in (e, f):
                sums = (matrix[..., :-1] * ones.view(4, 1, 1, length)).sum(-1)
                torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-5, rtol=1e-5)
            continue
        expected = layer._split_heads((token @ layer.k_proj.weight.T + layer.k_proj.bias).view(1, 1, WIDTH))
        live = torch.ones(4, 1, keys.keys.size(2), dtype=torch.bool) if keys.mask is None else keys.mask.squeeze(2)
        real = live.unsqueeze(-1).expand(-1, HEADS, -1, 1)
        expected = expected.expand_as(keys.keys)
        torch.testing.assert_close(keys.keys * real, expected * real, atol=1e-5, rtol=1e-5)


def test_a_stretched_input_of_all_equal_parts_has_the_rows_of_the_whole() -> None:
    """Each token of a short input stands for the positions it is laid over."""
    layers, _ = _layers("layerwise-linear-stretch")
    short = torch.randn(2, N // 4, WIDTH)
    long = short.repeat_interleave(4, dim=1)
    torch.testing.assert_close(layers[0](short)[0], layers[0](long)[0][:, ::4], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sharing", ["none", "headwise", "key_value", "layerwise"])
def test_windows_that_fit_are_dense_attention_up_to_k_tokens(sharing: str) -> None:
    """A row for each token, and an affine kernel of one tap is 1: whatever was learned, nothing is left out."""
    layers, shared = _layers(f"{sharing}-convolution", row_weights="affine", short_inputs="stretch")
    lengths = [K, 4, 1]
    mask, x = padding_mask(lengths, K), torch.randn(3, K, WIDTH)
    with torch.no_grad():
        without_gradients = layers[0](x, mask)[0]
    found = layers[0](x, mask)[0]
    for b, length in enumerate(lengths):
        expected = dense_attention(layers[0], x[b : b + 1, :length])
        for out in (found, without_gradients):
            torch.testing.assert_close(out[b : b + 1, :length], expected, atol=1e-5, rtol=1e-5)
    found.sum().backward()
    gradient = (shared or layers[0].proj_k).weight.grad
    assert gradient is not None and not gradient.any(), "distributed data parallel waits for all gradients"
    assert not torch.allclose(layers[0](torch.cat([x, x], 1))[0][:, :K], layers[0](x)[0])


def test_attention_dropout_acts_in_training_only() -> None:
    layers, _ = _layers("layerwise-linear", attention_dropout=0.5)
    x = torch.randn(2, N, WIDTH)
    torch.testing.assert_close(layers[0](x)[0], reference_attention(layers[0], x)[0], atol=1e-5, rtol=1e-5)
    layers.train()
    for need_weights in (False, True):
        first, second = (layers[0](x, need_weights=need_weights)[0] for _ in range(2))
        assert not torch.allclose(first, second)


def test_longer_input_is_refused_with_both_numbers() -> None:
    layers, _ = _layers("headwise-linear")
    with pytest.raises(ValueError, match=rf"{N + 1} positions.* at most {N}.*max_positions"):
        layers[0](torch.randn(1, N + 1, WIDTH))
    with pytest.raises(ValueError, match="width|wide"):
        layers[0](torch.randn(1, N, WIDTH + 1))
    with pytest.raises(ValueError, match="key_padding_mask has shape"):
        layers[0](torch.randn(2, N, WIDTH), torch.zeros(N, 2, dtype=torch.bool))


def test_the_shared_projection_must_be_given_exactly_where_it_is_shared() -> None:
    with pytest.raises(ValueError, match="layerwise.*shared=build_shared_projection"):
        LinformerSelfAttention(settings_of("layerwise-linear"))
    _, shared = build_attention_layers(settings_of("layerwise-linear"))
    with pytest.raises(ValueError, match="headwise.*leave shared out"):
        LinformerSelfAttention(settings_of("headwise-linear"), 0, shared)


def test_copies_and_pickles_keep_one_shared_matrix() -> None:
    for case in ("layerwise-linear", "layerwise-convolution"):
        layers, shared = _layers(case)
        holder = torch.nn.ModuleDict({"layers": layers, "shared": shared})
        for clone in (copy.deepcopy(holder), pickle.loads(pickle.dumps(holder))):
            assert all(layer._shared is clone["shared"] for layer in clone["layers"])
            assert clone["shared"].weight is not shared.weight
            shape = shared.weight.shape
            assert [key for key, w in clone.state_dict().items() if w.shape == shape] == ["shared.weight"]
            assert [key for key, p in clone.named_parameters() if p.shape == shape] == ["shared.weight"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *("layerwise-linear-affine-per_layer-stretch", "headwise-linear-affine-stretch", "none-linear-stretch"),
        *("key_value-linear-step", "none-linear-affine-per_head-stretch", "none-linear-per_head"),
        *("layerwise-convolution-affine-stretch", "none-convolution-affine-per_head-stretch"),
        *("headwise-convolution-affine-step", "layerwise-mean_pool-stretch", "none-mean_pool-per_head-stretch"),
        *("none-max_pool-stretch", "layerwise-max_pool-per_head"),
        *("key_value-convolution-affine-stretch-overlap2", "none-convolution-affine-per_head_2-stretch-overlap2"),
    ],
)
def test_compiles_as_one_graph(case: str) -> None:
    """No graph break: what torch.compile and CUDA graphs need to take the layer whole."""
    layers, _ = _layers(case)
    compiled = torch.compile(layers[0], fullgraph=True, backend="eager")
    x, mask = torch.randn(2, N, WIDTH), padding_mask([N, 4], N)
    torch.testing.assert_close(compiled(x, mask)[0], layers[0](x, mask)[0])
    torch._dynamo.reset()


@pytest.mark.parametrize("grad", [True, False], ids=["gradients", "inference"])
def test_autocast_gives_the_layer_one_dtype(grad: bool) -> None:
    for case in EVERY_CASE:
        layers, _ = _layers(case)
        for length in (N, N - 1):  # without and with a last window that is not full
            x = torch.randn(3, length, WIDTH)
            for mask in (None, padding_mask([length, length // 2 + 1, 3], length)):
                with torch.set_grad_enabled(grad):
                    exact, _ = layers[0](x, mask)
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        out, _ = layers[0](x, mask)
                assert out.dtype == torch.bfloat16, case
                torch.testing.assert_close(out.float(), exact, atol=0.2, rtol=0.1, msg=case)


@pytest.mark.parametrize("length", [511, 300])
def test_a_long_e_is_stretched_without_loss_of_precision(length: int) -> None:
    """Sums over columns of a matrix in bf16 are differences of sums over many."""
    weight = (torch.rand(3, 512, generator=torch.Generator().manual_seed(1)) + 0.5).bfloat16()
    expected = stretched(weight.double(), length, None)
    torch.testing.assert_close(stretched(weight, length, None).double(), expected, rtol=0.01, atol=0)


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("lengths", [(8000,), (8000, 8000), (8000, 6000)], ids=["whole", "padded", "two_sizes"])
def test_long_windows_do_not_overflow_in_fp16(lengths: tuple[int, ...], strides: int) -> None:
    n, largest = 8192, 40.0  # the sum over a window of 4,096 tokens is 163,840, and 65,504 the largest number in fp16
    settings = LinformerSettings(16, 2, 1, n, 2, projection="convolution", kernel_strides=strides)
    _, shared = build_attention_layers(settings)
    assert shared is not None
    mask = None if lengths == (8000,) else padding_mask(list(lengths), n)
    x = torch.full((len(lengths), 8000 if mask is None else n, 16), largest, dtype=torch.float16)
    rows = shared.half()(x if mask is None else x.masked_fill(mask.unsqueeze(-1), 0), mask)
    torch.testing.assert_close(rows, torch.full_like(rows, largest), rtol=2e-3, atol=0)


@pytest.mark.parametrize("case", ["layerwise-mean_pool-stretch", "none-max_pool-stretch"])
def test_windows_end_with_their_sequence(case: str) -> None:
    layers, _ = _layers(case)
    x = torch.randn(2, N - 1, WIDTH)  # the last of the windows of three positions has one
    together = layers[0](x, padding_mask([N - 1, 5], N - 1))[0]
    torch.testing.assert_close(together[:1], layers[0](x[:1])[0])


def test_means_of_long_windows_do_not_overflow_in_fp16() -> None:
    (layer,), _ = build_attention_layers(LinformerSettings(16, 2, 1, 8192, 2, projection="mean_pool"))
    x = torch.full((1, 8000, 16), 40.0, dtype=torch.float16)
    assert torch.equal(layer.proj_k(x), x[:, :2])


def test_what_is_missing_to_one_is_computed_in_single_precision() -> None:
    kernel = torch.full((1, 3), 1 / 3).bfloat16()
    missing = convolution._missing(kernel, torch.ones(1, 1, 3, dtype=torch.bool))
    torch.testing.assert_close(missing, 1 - kernel.float().sum().view(1, 1, 1))
    assert missing.item() != 0, "as in bf16, where the sum rounds to one"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(convolution._missing(kernel, torch.ones(1, 1, 3, dtype=torch.bool)), missing)


def test_k_above_n_is_allowed_with_a_warning() -> None:
    for projection in PROJECTIONS:
        with pytest.warns(UserWarning, match="not below max_positions"):
            layers, _ = _layers(f"headwise-{projection}", projected_dim=N + 3)
        x = torch.randn(2, N, WIDTH)
        torch.testing.assert_close(layers[0](x)[0], reference_attention(layers[0], x)[0], atol=1e-5, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinformerSettings(embed_dim=8, num_heads=2, num_layers=1, max_positions=8, projected_dim=4)
