"""RoBERTa's attention does not wait for a plan for each padded batch.

What fairseq does: its attention calls torch's fused kernels. On NVIDIA Hopper and Blackwell GPUs, torch 2.11 takes
cuDNN's kernel for attention with a padding mask, which makes a plan for every new shape of its input. Batches of
sentences have many shapes, so that most updates wait for plans.

The patch: a layer is computed without cuDNN's kernel if there is padding, also where its activations are recomputed
(``--checkpoint-activations``), so that dropout is the same. The Linformer's own attention does the same.
What calls ``forward`` is replaced, not ``forward`` itself, which ``torch.jit.script`` reads.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from fairseq.modules import checkpoint_activations
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from linformer_fairseq.core.dot_product import without_cudnn


def _without_plans(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def without_plans(self: TransformerEncoderLayerBase, *args: Any, **kwargs: Any) -> Any:
        padding = args[1] if len(args) > 1 else kwargs.get("encoder_padding_mask")
        # layers of others, such as the Linformer's, are left alone
        is_own = type(self).forward is TransformerEncoderLayerBase.forward
        with nullcontext() if padding is None or not is_own or torch.compiler.is_compiling() else without_cudnn():
            return call(self, *args, **kwargs)

    return without_plans


def _recomputed(checkpointed_forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(checkpointed_forward)
    def forward(original_forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        layer = getattr(original_forward, "__self__", None)
        if isinstance(layer, TransformerEncoderLayerBase):
            original_forward = functools.partial(_without_plans(original_forward.__func__), layer)  # type: ignore[attr-defined]
        return checkpointed_forward(original_forward, *args, **kwargs)

    return forward


REPLACED = (
    (TransformerEncoderLayerBase, "__call__", _without_plans),
    (checkpoint_activations, "_checkpointed_forward", _recomputed),
)
