"""Our layers in torch alone."""

from __future__ import annotations

from torch import Tensor, nn

from benchmarks.efficiency.models.embeddings import Embeddings, padding_without_waiting
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection, compile_layers


class CoreLinformer(nn.Module):
    """The encoder, with layerwise sharing: token ids (B, T) to features (B, T, C)."""

    def __init__(self, sizes: Sizes, n: int, k: int, compiled: bool = False, projection: str = "linear") -> None:
        super().__init__()
        settings = LinformerSettings(sizes.width, sizes.heads, sizes.layers, n, k, projection=projection)
        self.embeddings = Embeddings(sizes, n)
        self.shared = build_shared_projection(settings)
        self.layers = nn.ModuleList(
            LinformerEncoderLayer(settings, number, self.shared, sizes.ffn) for number in range(sizes.layers)
        )
        if compiled:
            compile_layers(list(self.layers))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        padding, x = padding_without_waiting(tokens), self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x, padding, overwrite=True)
        return x


def linformer_core(sizes: Sizes, n: int, k: int | None) -> CoreLinformer:
    """Our layers with the paper's projection."""
    assert k is not None
    return CoreLinformer(sizes, n, k)


def linformer_core_convolution(sizes: Sizes, n: int, k: int | None) -> CoreLinformer:
    """Our layers with default options."""
    assert k is not None
    return CoreLinformer(sizes, n, k, projection="convolution")


def linformer_core_compiled(sizes: Sizes, n: int, k: int | None) -> CoreLinformer:
    """Our layers through torch.compile, with the paper's projection."""
    assert k is not None
    return CoreLinformer(sizes, n, k, compiled=True)
