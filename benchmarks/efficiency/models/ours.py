"""Our fairseq model, as users build it, and our layers in plain torch."""

from __future__ import annotations

from functools import partial
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


def linformer(sizes: Sizes, n: int, k: int, **options: Any) -> Features:
    """Our model with layerwise sharing, by default with the paper's projection; for the options see `full_model`."""
    return Features(full_model(sizes, n, k, **options))


linformer_convolution = partial(linformer, projection="convolution")
"""With default options."""
linformer_compiled = partial(linformer, compiled=True)
linformer_recomputed = partial(linformer, recomputes=True)


class CoreLinformer(nn.Module):
    """An encoder of our layers with layerwise sharing, by default with the paper's projection: token ids (B, T) to
    features (B, T, C)."""

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


linformer_core_convolution = partial(CoreLinformer, projection="convolution")
"""With default options."""
linformer_core_mean_pool = partial(CoreLinformer, projection="mean_pool")
linformer_core_compiled = partial(CoreLinformer, compiled=True)
