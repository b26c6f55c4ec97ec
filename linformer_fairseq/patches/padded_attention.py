"""RoBERTa's attention does not wait for a plan for each padded batch.

What fairseq does: its attention calls torch's fused kernels. On NVIDIA Hopper and Blackwell GPUs, torch 2.11 takes
cuDNN's kernel for attention with a padding mask, which makes a plan for every new shape of its input. Batches of
sentences have many shapes, so that most updates wait for plans.

The patch: RoBERTa is computed without cuDNN's kernel if there is padding. The Linformer's own attention does the same.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from fairseq.models.roberta.model import RobertaEncoder
from torch import Tensor

from linformer_fairseq.core.dot_product import without_cudnn


def _without_plans(extract: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(extract)
    def extract_features(self: RobertaEncoder, src_tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        padded = src_tokens.eq(self.dictionary.pad()).any()
        with without_cudnn() if padded else nullcontext():
            return extract(self, src_tokens, *args, **kwargs)

    return extract_features


REPLACED = ((RobertaEncoder, "extract_features", _without_plans),)
