"""The Linformers on PyPI."""

from __future__ import annotations

from torch import nn

from benchmarks.efficiency.sizes import Sizes


def lucidrains(sizes: Sizes, n: int, k: int | None) -> nn.Module:
    """PyPI's linformer: each layer has its E and F; its feed-forward network is always 4 times the width."""
    from linformer import LinformerLM

    model: nn.Module = LinformerLM(sizes.vocabulary, sizes.width, n, sizes.layers, k=k, heads=sizes.heads)
    model.to_logits = nn.Identity()
    return model


def linformer_pytorch(sizes: Sizes, n: int, k: int | None) -> nn.Module:
    """PyPI's linformer-pytorch, E = F shared by all layers."""
    from linformer_pytorch import LinformerLM

    model: nn.Module = LinformerLM(
        num_tokens=sizes.vocabulary,
        input_size=n,
        channels=sizes.width,
        dim_k=k,
        dim_ff=sizes.ffn,
        nhead=sizes.heads,
        depth=sizes.layers,
        return_emb=True,
        parameter_sharing="layerwise",
    )
    return model
