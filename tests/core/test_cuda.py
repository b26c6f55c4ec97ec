"""What only a GPU can show: no host sync, CUDA graphs, half precision kernels. Needs torch alone."""

from __future__ import annotations

import pytest
import torch

from linformer_fairseq.core import (
    PROJECTIONS,
    LinformerEncoderLayer,
    LinformerSettings,
    build_attention_layers,
    build_shared_projection,
    compile_layers,
)
from linformer_fairseq.core import layer as layers_of_core
from linformer_fairseq.core.reference import reference_attention
from tests.core.cases import ALL_MODES, WIDTH, N, padding_mask, randomise, settings_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
LENGTHS = [N, 9, 3]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2), (torch.float16, 5e-3)], ids=str
)
@pytest.mark.parametrize("case", ALL_MODES)
def test_the_gpu_computes_what_the_reference_does_without_a_host_sync(
    case: str, dtype: torch.dtype, tolerance: float
) -> None:
    layers, shared = build_attention_layers(settings_of(case))
    layer = layers[0].eval()
    modules = [module for module in (layer, shared) if module is not None]
    for module in modules:
        randomise(module)
    x = torch.randn(len(LENGTHS), N, WIDTH)
    exact, _ = reference_attention(layer, x, LENGTHS)
    for module in modules:
        module.to("cuda", dtype)
    mask = padding_mask(LENGTHS, N).cuda()
    x = x.to("cuda", dtype)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out, _ = layer(x, mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    real = ~mask.cpu().unsqueeze(-1)
    error = ((out.float().cpu() - exact) * real).norm() / (exact * real).norm()
    assert error < tolerance, f"relative error {error:.2e}"


@pytest.mark.parametrize("case", ALL_MODES)
def test_gradients_are_those_on_a_cpu(case: str) -> None:
    settings = settings_of(case)
    shared = build_shared_projection(settings)
    layer = LinformerEncoderLayer(settings, 0, shared, ffn_dim=40)
    modules = torch.nn.ModuleList(module for module in (layer, shared) if module is not None)
    x, mask = torch.randn(len(LENGTHS), N, WIDTH), padding_mask(LENGTHS, N)
    direction = torch.randn(sum(LENGTHS), WIDTH)  # the squares behind a layer norm always have the same sum
    found = []
    for device in ("cpu", "cuda"):
        modules.to(device)
        modules.zero_grad()
        inputs = x.to(device, copy=True).requires_grad_()
        out = layer(inputs, mask.to(device))
        (out[~mask.to(device)] * direction.to(device)).sum().backward()
        gradients = {name: parameter.grad for name, parameter in modules.named_parameters()} | {"x": inputs.grad}
        found.append({name: gradient.cpu().clone() for name, gradient in gradients.items() if gradient is not None})
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("case", ALL_MODES)
def test_a_cuda_graph_takes_the_layer_and_replays_it_on_other_input(case: str) -> None:
    layers, shared = build_attention_layers(settings_of(case))
    layer = layers[0].eval().cuda()
    if shared is not None:
        shared.cuda()
    x = torch.randn(len(LENGTHS), N, WIDTH, device="cuda")
    mask = padding_mask(LENGTHS, N).cuda()
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                layer(x, mask)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out, _ = layer(x, mask)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(out, layer(x, mask)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", ALL_MODES)
def test_whole_layers_run_in_blocks_and_compiled_without_a_host_sync(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(case)
    shared = build_shared_projection(settings)
    layers = [LinformerEncoderLayer(settings, 0, shared, ffn_dim=40).eval().cuda() for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    if shared is not None:
        shared.cuda()
    x, mask = torch.randn(len(LENGTHS), N, WIDTH, device="cuda"), padding_mask(LENGTHS, N).cuda()
    whole = layers[0](x, mask)
    monkeypatch.setattr(layers_of_core, "_LARGE_BLOCK", 7)
    compile_layers(layers[1:])
    with torch.no_grad():
        layers[1](x, mask)  # compiles
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = [layer(x, mask) for layer in layers]
        finally:
            torch.cuda.set_sync_debug_mode("default")
    for out in found:
        torch.testing.assert_close(out, whole, atol=1e-4, rtol=1e-4)
    torch._dynamo.reset()


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_padded_batches_are_not_left_to_cudnn(projection: str) -> None:
    """It makes a plan for each new shape. It takes heads of this width."""
    settings = LinformerSettings(128, 2, 1, max_positions=64, projected_dim=32, sharing="none", projection=projection)
    layer = LinformerEncoderLayer(settings, 0, None, 8).to("cuda", torch.bfloat16)
    x = torch.randn(2, 64, 128, device="cuda", dtype=torch.bfloat16)
    with torch.profiler.profile() as profile:
        layer(x, padding_mask([64, 50], 64).cuda())
    names = {event.name for event in profile.events()}
    assert "aten::scaled_dot_product_attention" in names
    assert not any("cudnn" in name for name in names)
