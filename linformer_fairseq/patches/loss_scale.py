"""A run in fp16 resumes with the counters of its loss scale.

What fairseq does: checkpoints have the loss scale, but not how many updates ago it was last raised or lowered. The
scale is raised after a number of updates without an overflow (``--fp16-scale-window``, by default 2^14 divided by
processes and ``--update-freq``), which are counted from 0 after each resume: a run that is stopped more often never
raises it, and overflows come at other updates than in an uninterrupted run.

The patch: the optimizer's state has the counters, too.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin, _MemoryEfficientFP16OptimizerMixin

KEY = "loss_scale_counters"
"""In the optimizer's state: attributes of fairseq's DynamicLossScaler, by name."""
_COUNTERS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")


def _saving(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def with_counters(self: Any) -> dict[str, Any]:
        state = state_dict(self)
        if self.scaler is not None:
            state[KEY] = {name: getattr(self.scaler, name) for name in _COUNTERS}
        return state

    return with_counters


def _loading(load_state_dict: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(load_state_dict)
    def with_counters(self: Any, state_dict: dict[str, Any], optimizer_overrides: Any = None) -> None:
        saved = state_dict.get(KEY, {})
        load_state_dict(self, {name: value for name, value in state_dict.items() if name != KEY}, optimizer_overrides)
        if self.scaler is not None:
            vars(self.scaler).update(saved)

    return with_counters


REPLACED = (
    (_FP16OptimizerMixin, "state_dict", _saving),
    (_FP16OptimizerMixin, "load_state_dict", _loading),
    (_MemoryEfficientFP16OptimizerMixin, "state_dict", _saving),
    (_MemoryEfficientFP16OptimizerMixin, "load_state_dict", _loading),
)
