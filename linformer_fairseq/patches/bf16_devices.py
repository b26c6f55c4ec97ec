"""``--bf16`` trains on a GPU or CPU.

What fairseq does: ``fairseq-train --bf16`` sets ``--tpu`` ("implies --tpu", from the time when only TPUs had bfloat16)
and fails with ``'NoneType' object has no attribute 'xla_device'``. ``fairseq-hydra-train`` does not. Criterion,
optimizer, model and task have copies of this option: if it is set, masked_lm computes logits for all positions instead
of the masked ones, and Adam is not fused.

The patch: if torch_xla is not installed, there is no TPU, and the implied option is reset in every part of the config
before the run starts. ``--tpu`` without ``--bf16`` is left to fairseq, which raises its own error.

If the processor has no instructions for bfloat16, which makes it slower than float32, a warning says so.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import utils

from linformer_fairseq.files.processor import has_bfloat16
from linformer_fairseq.training.run_report import LOG


def _without_implied_tpu(call_main: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call_main)
    def call(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        if cfg.common.bf16 and importlib.util.find_spec("torch_xla") is None:
            for part in cfg.values():
                if getattr(part, "tpu", False):
                    part.tpu = False
            if has_bfloat16() is False and (cfg.common.cpu or not torch.cuda.is_available()):
                LOG.warning("bf16: this processor has no instructions for it; fp32 is faster")
        return call_main(cfg, main, **kwargs)

    return call


REPLACED = ((utils, "call_main", _without_implied_tpu),)
