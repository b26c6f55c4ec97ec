"""The architectures: sizes for ``--arch NAME`` and Hydra's ``model._name: NAME``."""

from __future__ import annotations

import functools
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture

MODEL = "linformer_roberta"


def _sizes(layers: int, width: int, ffn: int, heads: int) -> dict[str, Any]:
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": ffn,
        "encoder_attention_heads": heads,
    }


BASE = {**_sizes(12, 768, 3072, 12), "encoder_normalize_before": False, "layernorm_embedding": True}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    f"{MODEL}_base": BASE,
    f"{MODEL}_large": _sizes(24, 1024, 4096, 16),
    f"{MODEL}_prenorm": {"encoder_normalize_before": True, "layernorm_embedding": False},
    # For experiments on a CPU and for tests.
    f"{MODEL}_small": _sizes(4, 256, 1024, 4),
    f"{MODEL}_tiny": _sizes(2, 64, 128, 2),
}


def fill(args: Any, values: dict[str, Any]) -> None:
    """Sets each option of ``args`` (a Namespace or config) that is missing or None."""
    for name, value in values.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def register() -> None:
    """Registers the architectures with fairseq; calling it again has no effect."""
    for name, values in ARCHITECTURES.items():
        if name not in ARCH_MODEL_REGISTRY:
            register_model_architecture(MODEL, name)(functools.partial(fill, values=values))
