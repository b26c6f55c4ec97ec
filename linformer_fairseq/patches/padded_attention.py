"""RoBERTa's attention does not wait for a plan for each padded batch.

What fairseq does: its attention calls torch's fused kernels. On NVIDIA Hopper and Blackwell GPUs, torch 2.11 takes
cuDNN's kernel for attention with a padding mask, which makes a plan for every new shape of its input. Batches of
sentences have many shapes, so that most updates wait for plans.

The patch: a layer is computed without cuDNN's kernel if there is padding, also where its activations are recomputed
(``--checkpoint-activations``), so that dropout is the same. The Linformer's own attention does the same.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor

from linformer_fairseq.core.dot_product import without_cudnn


def _without_plans(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def without_plans(
        self: TransformerEncoderLayerBase,
        x: Tensor,
        encoder_padding_mask: Tensor | None,
        attn_mask: Tensor | None = None,
    ) -> Any:
        with nullcontext() if encoder_padding_mask is None else without_cudnn():
            return forward(self, x, encoder_padding_mask, attn_mask)

    return without_plans


REPLACED = ((TransformerEncoderLayerBase, "forward", _without_plans),)
