"""A layer in blocks of positions is the layer."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from linformer_fairseq.core import LinformerEncoderLayer, build_shared_projection
from linformer_fairseq.core import layer as layers
from tests.core.cases import WIDTH, N, padding_mask, randomise, settings_of

# A case of each kind of keys and values that blocks of positions attend to; both orders of layer norm with two of them.
CASES = [
    *(
        (case, False)
        for case in (
            *("none-linear", "headwise-linear", "key_value-convolution", "none-convolution"),
            *("none-mean_pool-per_head-stretch", "layerwise-max_pool", "layerwise-linear-affine-per_layer-stretch"),
            "none-linear-affine",
        )
    ),
    *(("layerwise-convolution-affine-stretch", before) for before in (False, True)),
    ("layerwise-linear", True),
]
INPUTS = [(N, None), (N, padding_mask([N, 9, 4, 1, N], N)), (4, padding_mask([4, 1, 3, 2, 4], 4))]
"""T and padding; in short inputs E is applied to the scores, and each sequence may have its own."""


def _layer(case: str, normalize_before: bool = False) -> LinformerEncoderLayer:
    settings = settings_of(case)
    shared = build_shared_projection(settings)
    made = LinformerEncoderLayer(settings, 0, shared, ffn_dim=40)
    for number, module in enumerate([made, shared]):
        if module is not None:
            randomise(module, seed=number)
    made.normalize_before = normalize_before
    return made.eval()


@pytest.mark.parametrize("before", [False, True])
@torch.no_grad()
def test_the_layer_in_plain_torch_is_post_norm_or_pre_norm_with_gelu(before: bool) -> None:
    layer = _layer("none-linear", normalize_before=before)
    x = torch.randn(2, N, WIDTH)

    def norm(x: torch.Tensor, module: torch.nn.LayerNorm) -> torch.Tensor:
        return F.layer_norm(x, (WIDTH,), module.weight, module.bias)

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.gelu(F.linear(x, layer.fc1.weight, layer.fc1.bias)), layer.fc2.weight, layer.fc2.bias)

    if before:
        attended = x + layer.self_attn(norm(x, layer.self_attn_layer_norm))[0]
        expected = attended + feed_forward(norm(attended, layer.final_layer_norm))
    else:
        attended = norm(x + layer.self_attn(x)[0], layer.self_attn_layer_norm)
        expected = norm(attended + feed_forward(attended), layer.final_layer_norm)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("normalize_before", [False, True])
@pytest.mark.parametrize("name", ["self_attn", "self_attn.out_proj", "fc2", "final_layer_norm"])
@torch.no_grad()
def test_a_hook_on_a_part_of_the_layer_sees_all_of_its_output(
    name: str, normalize_before: bool, first_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = _layer("layerwise-convolution-affine-stretch", normalize_before)
    monkeypatch.setattr(layers, "_block_size", lambda _: 7)
    x, mask = torch.randn(2, N, WIDTH), padding_mask([N, 4], N)
    expected = layer(x, mask, first_only=first_only)
    seen: list[torch.Size] = []
    layer.get_submodule(name).register_forward_hook(
        lambda module, inputs, output: seen.append((output[0] if isinstance(output, tuple) else output).shape)
    )
    torch.testing.assert_close(layer(x, mask, overwrite=True, first_only=first_only), expected)
    assert seen == [(2, N, WIDTH)]


@torch.no_grad()
def test_a_hook_before_the_attention_sees_all_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer("layerwise-linear")
    monkeypatch.setattr(layers, "_block_size", lambda _: 7)
    seen: list[torch.Size] = []
    layer.self_attn.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    layer(torch.randn(2, N, WIDTH))
    assert seen == [(2, N, WIDTH)]


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_backward_hook_sees_all_gradients_of_a_recomputed_layer(
    register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = _layer("layerwise-linear")
    layer.recompute = True
    monkeypatch.setattr(layers, "_block_size", lambda _: 7)
    seen: list[torch.Size] = []
    getattr(layer.fc2, register)(lambda module, *gradients: seen.append(gradients[-1][0].shape))
    layer(torch.randn(2, N, WIDTH)).sum().backward()
    assert seen == [(2, N, WIDTH)]


@torch.no_grad()
def test_a_hook_that_sets_weights_does_not_undo_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As quantization noise and torch.nn.utils.prune have one."""
    layer = _layer("layerwise-convolution-affine-stretch", False)
    monkeypatch.setattr(layers, "_block_size", lambda _: 7)
    seen: list[int] = []
    layer.fc1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].size(1)))
    layer(torch.randn(1, N, WIDTH))
    assert seen == [7] * (N // 7) + [N % 7] * (N % 7 > 0)


@pytest.mark.parametrize("block", [*(pytest.param(size, marks=pytest.mark.slow) for size in (1, N)), 7, 2 * N + 3])
@pytest.mark.parametrize(("case", "normalize_before"), CASES)
def test_blocks_give_what_the_whole_gives(
    case: str, block: int, normalize_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = _layer(case, normalize_before)
    monkeypatch.setattr(layers, "_block_size", lambda _: block)
    for length, mask in INPUTS:
        x = torch.randn(5, length, WIDTH)
        whole = layer(x, mask)  # with gradients: in one piece
        before = x.clone()
        with torch.no_grad():
            in_blocks = layer(x, mask)
        torch.testing.assert_close(in_blocks, whole)
        assert torch.equal(x, before), "the caller's input was changed"
        with torch.no_grad():
            in_place = layer(x, mask, overwrite=True)
        assert torch.equal(in_place, in_blocks)
        assert (in_place is x) == (block < 5 * length), "more than one block goes where x was"
        fresh = before.clone()
        layer(fresh, mask, overwrite=True)
        assert torch.equal(fresh, before), "gradients need the input as it was"
        fresh.requires_grad_()
        with torch.no_grad():
            layer(fresh, mask, overwrite=True)
        assert torch.equal(fresh, before), "and so does a checkpoint, which has saved it"
        same = before[:1].expand_as(before)  # all in the memory of the first
        with torch.no_grad():
            torch.testing.assert_close(layer(same, mask, overwrite=True), layer(same.clone(), mask))


@pytest.mark.parametrize("block", [7, N, 2 * N + 3])
@pytest.mark.parametrize(("case", "normalize_before"), CASES)
def test_recomputed_blocks_have_the_gradients_of_the_whole(
    case: str, block: int, normalize_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = _layer(case, normalize_before)
    shared = layer.self_attn._shared
    weights = [*layer.parameters(), *(() if shared is None else shared.parameters())]
    monkeypatch.setattr(layers, "_block_size", lambda _: block)
    for length, mask in INPUTS:
        x, direction = torch.randn(5, length, WIDTH, requires_grad=True), torch.randn(5, length, WIDTH)
        wanted = [x, *weights]
        found = []
        for layer.recompute in (False, True):
            out = layer(x, mask)
            found.append((out, torch.autograd.grad((out * direction).sum(), wanted)))
        (whole, expected), (in_blocks, got) = found
        torch.testing.assert_close(in_blocks, whole)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_recomputation_keeps_no_activations_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer("layerwise-linear")
    monkeypatch.setattr(layers, "_block_size", lambda _: 8)
    x = torch.randn(3, N, WIDTH, requires_grad=True)

    def kept() -> int:
        """Numbers in the tensors that the backward pass was left, without the parameters."""
        storages: dict[int, int] = {}
        weights = {p.untyped_storage().data_ptr() for p in layer.parameters()}
        weights.add(layer.self_attn._shared.weight.untyped_storage().data_ptr())

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                storages[storage.data_ptr()] = storage.nbytes() // 4
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            out = layer(x)
        found = sum(storages.values())
        del out
        return found

    everything = kept()
    layer.recompute = True
    assert kept() < everything / 4


@pytest.mark.parametrize("normalize_before", [False, True])
def test_the_residual_is_added_after_dropout(normalize_before: bool) -> None:
    layer = _layer("layerwise-linear", normalize_before).train()
    layer.dropout_module = torch.nn.Dropout(1.0)  # all that is dropped is zero
    x = torch.randn(2, N, WIDTH)
    kept = x if normalize_before else layer.final_layer_norm(layer.self_attn_layer_norm(x))
    assert torch.equal(layer(x), kept)


def test_dropout_is_drawn_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer("layerwise-linear").train()
    layer.dropout_module, layer.recompute = torch.nn.Dropout(0.5), True
    monkeypatch.setattr(layers, "_block_size", lambda _: 8)
    x = torch.randn(2, N, WIDTH, dtype=torch.double, requires_grad=True)
    layer.double()
    layer.self_attn._shared.double()

    def loss(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return layer(x).square().sum()

    direction = torch.randn_like(x)
    (gradient,) = torch.autograd.grad(loss(x), x)
    step = 1e-6
    slope = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-5)


def test_nothing_is_as_wide_as_the_network_and_as_long_as_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer("layerwise-linear")
    widest = []
    fc1 = layer.fc1
    layer.__dict__["fc1"] = lambda x: widest.append(x.shape[:2].numel()) or fc1(x)
    monkeypatch.setattr(layers, "_block_size", lambda _: 8)
    x = torch.randn(3, N, WIDTH)
    with torch.no_grad():
        layer(x)
    assert sum(widest) == 3 * N
    assert max(widest) == 8
    widest.clear()
    layer(x)
    assert widest == [3 * N]


def test_a_block_fits_the_caches_whatever_the_dtype() -> None:
    layer = _layer("none-linear")
    longest = {}
    for dtype in (torch.float32, torch.bfloat16):
        layer.to(dtype)
        shapes: list[torch.Size] = []
        layer.activation_fn = lambda x, shapes=shapes: shapes.append(x.shape) or x
        with torch.no_grad():
            layer(torch.randn(400, N, WIDTH, dtype=dtype))
        longest[dtype] = max(shape[:2].numel() for shape in shapes)
    assert longest[torch.float32] <= 1024 < longest[torch.bfloat16] <= 2048


def test_dropout_is_drawn_alike_with_and_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint runs a layer without them first, and then again with them."""
    layer = _layer("layerwise-linear").train()
    layer.dropout_module = torch.nn.Dropout(0.5)
    monkeypatch.setattr(layers, "_block_size", lambda _: 8)
    x, drawn = torch.randn(2, N, WIDTH), []
    for gradients in (False, True):
        torch.manual_seed(3)
        with torch.set_grad_enabled(gradients):
            drawn.append(layer(x))
    torch.testing.assert_close(*drawn)
    with torch.no_grad():
        assert not torch.allclose(layer(x), drawn[0])


def test_autocast_decides_the_dtype_of_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer("layerwise-linear", normalize_before=True)
    monkeypatch.setattr(layers, "_block_size", lambda _: 8)
    layer.__dict__["dropout_module"] = torch.Tensor.float  # on a GPU, autocast computes layer norms in it
    x = torch.randn(2, N, WIDTH).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = layer(x)
        with torch.no_grad():
            in_blocks = layer(x)
            assert torch.equal(layer(x.clone(), overwrite=True), in_blocks)
    assert in_blocks.dtype == whole.dtype
    torch.testing.assert_close(in_blocks, whole, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_batch_of_no_sequences(gradients: bool, recompute: bool) -> None:
    layer = _layer("layerwise-linear")
    layer.recompute = recompute
    with torch.set_grad_enabled(gradients):
        assert layer(torch.randn(0, N, WIDTH)).shape == (0, N, WIDTH)
