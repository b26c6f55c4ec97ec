"""Our model through fairseq, as a user has it."""

from __future__ import annotations

from typing import Any

from benchmarks.efficiency.models.fairseq_task import Features, Task, encoder_options
from benchmarks.efficiency.sizes import Sizes


def full_model(
    sizes: Sizes, n: int, k: int, compiled: bool = False, dropout: float = 0.0, projection: str = "linear"
) -> Any:
    """The whole LinformerRobertaModel, with its masked-language-model head."""
    from linformer_fairseq.models import LinformerRobertaModel
    from linformer_fairseq.models.config import LinformerRobertaConfig

    config = LinformerRobertaConfig(
        **encoder_options(sizes, n, dropout), projected_dim=k, projection=projection, compile_encoder=compiled
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
