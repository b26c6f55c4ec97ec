"""What only a GPU can show: no host sync, CUDA graphs, half precision kernels. Needs torch alone."""

from __future__ import annotations

import pytest
import torch

from linformer_fairseq.core import build_attention_layers
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
