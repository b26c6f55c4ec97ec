"""Our fairseq model, as users build it, and our layers in plain torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from benchmarks.efficiency.models.embeddings import Embeddings, padding_without_waiting
from benchmarks.efficiency.models.fairseq_task import Features, Task, encoder_options
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection, compile_layers


def full_model(
    sizes: Sizes,
    n: int,
    k: int,
    compiled: bool = False,
    recomputes: bool = False,
    dropout: float = 0.0,
    projection: str = "linear",
) -> Any:
    """The whole LinformerRobertaModel, with its masked-language-model head."""
    from linformer_fairseq.models import LinformerRobertaModel
    from linformer_fairseq.models.config import LinformerRobertaConfig

    config = LinformerRobertaConfig(
        **encoder_options(sizes, n, dropout),
        projected_dim=k,
        projection=projection,
        compile_encoder=compiled,
        checkpoint_activations=recomputes,
    )
    return LinformerRobertaModel.build_model(config, Task(sizes.vocabulary, n))


def linformer(sizes: Sizes, n: int, k: int | None) -> Features:
    """Our model with the paper's projection and layerwise sharing."""
    assert k is not None
    return Features(full_model(sizes, n, k))


def linformer_convolution(sizes: Sizes, n: int, k: int | None) -> Features:
    """Our model with default options."""
    assert k is not None
    return Features(full_model(sizes, n, k, projection="convolution"))


def linformer_compiled(sizes: Sizes, n: int, k: int | None) -> Features:
    """Our model with compile_encoder, with the paper's projection."""
    assert k is not None
    return Features(full_model(sizes, n, k, compiled=True))


def linformer_recomputed(sizes: Sizes, n: int, k: int | None) -> Features:
    """Our model with checkpoint_activations, with the paper's projection."""
    assert k is not None
    return Features(full_model(sizes, n, k, recomputes=True))


class CoreLinformer(nn.Module):
    """An encoder of our layers, with layerwise sharing: token ids (B, T) to features (B, T, C)."""

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


def linformer_core_mean_pool(sizes: Sizes, n: int, k: int | None) -> CoreLinformer:
    """Our layers with the mean of each window as projection."""
    assert k is not None
    return CoreLinformer(sizes, n, k, projection="mean_pool")


def linformer_core_compiled(sizes: Sizes, n: int, k: int | None) -> CoreLinformer:
    """Our layers with torch.compile, with the paper's projection."""
    assert k is not None
    return CoreLinformer(sizes, n, k, compiled=True)
