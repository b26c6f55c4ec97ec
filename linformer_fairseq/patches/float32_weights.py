"""A run in fp16 or bf16 resumes with the float32 weights that it stopped with.

What fairseq does: it trains float32 copies of the weights, and saves the rounded weights, in float32. A resumed run
makes its copies of these, and so has lost what was rounded: after 30 updates in bf16, the last 10 of them by a resumed
run, a small model's weights differed from those of an uninterrupted run by up to 0.008.

The patch: a checkpoint has the copies in place of the rounded weights, which it need not store, because a model in half
precision rounds them again on loading. They are also in the optimizer's state, as the same tensors, which are written
only once. fairseq without the patch can read such a checkpoint, as before. A copy is taken only if it rounds to the
weight that the model has loaded, which may have been replaced in the file, as by an average over checkpoints. The
memory-efficient modes have no copies, and sharded models (FSDP) are left to fairseq.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer, _FP16OptimizerMixin
from fairseq.trainer import Trainer
from torch import Tensor

from linformer_fairseq.training.run_report import LOG

KEY = "float32_weights"
"""In the optimizer's state: the copies, in the order of its parameters."""


def _copies(optimizer: FP16Optimizer) -> list[Tensor]:
    """The float32 copy of each parameter, with its shape; on a GPU they are parts of one tensor."""
    params, copies = optimizer.fp16_params, optimizer.fp32_params
    if not optimizer.has_flat_params:
        return [copy.detach() for copy in copies]
    if len(copies) > 1:  # a pipeline of devices
        return []
    (flat,) = copies.values()
    return [part.view_as(p) for p, part in zip(params, flat.detach().split([p.numel() for p in params]), strict=True)]


def _saving(state_dict: Callable[[Trainer], dict[str, Any]]) -> Callable[[Trainer], dict[str, Any]]:
    @functools.wraps(state_dict)
    def with_copies(self: Trainer) -> dict[str, Any]:
        state = state_dict(self)
        if not isinstance(self.optimizer, FP16Optimizer) or self.is_fsdp:
            return state
        copies = [copy.cpu() for copy in _copies(self.optimizer)]
        by_place = {p.data_ptr(): copy for p, copy in zip(self.optimizer.fp16_params, copies, strict=False)}
        state["model"] = {key: by_place.get(value.data_ptr(), value) for key, value in state["model"].items()}
        if "last_optimizer_state" in state:
            state["last_optimizer_state"] = {**state["last_optimizer_state"], KEY: copies}
        return state

    return with_copies


def _loading(load_state_dict: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(load_state_dict)
    def with_copies(self: FP16Optimizer, state_dict: dict[str, Any], optimizer_overrides: Any = None) -> None:
        state_dict = dict(state_dict)
        saved = state_dict.pop(KEY, [])
        load_state_dict(self, state_dict, optimizer_overrides)
        own = _copies(self)
        if [copy.shape for copy in own] != [copy.shape for copy in saved]:
            return
        replaced = 0
        with torch.no_grad():
            for copy, value, weight in zip(own, saved, self.fp16_params, strict=False):
                if torch.equal(value.to(weight), weight):
                    copy.copy_(value)
                else:
                    replaced += 1
        if replaced:
            LOG.warning(
                f"{replaced} of {len(own)} weights of the checkpoint are not those of its optimizer, as in an average "
                "over checkpoints; the run goes on with them, and with the optimizer's state as it is"
            )

    return with_copies


REPLACED = (
    (Trainer, "state_dict", _saving),
    (_FP16OptimizerMixin, "load_state_dict", _loading),
)
