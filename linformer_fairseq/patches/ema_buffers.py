"""An average of the parameters (``--store-ema``) leaves counters and signatures as they are.

What fairseq does: it multiplies every entry of the model's state by the decay, and fails with "result type Float can't
be cast to the desired output type Long" at the first one with integers, such as the signature of our attention.

The patch: entries that are not floating-point numbers are copied from the model.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.models.ema.ema import EMA


def _of_numbers_only(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def start_average(self: EMA, model: Any, config: Any, device: Any = None, skip_keys: Any = None) -> None:
        whole = {
            name
            for name, value in model.state_dict().items()
            if isinstance(value, torch.Tensor) and not torch.is_floating_point(value)
        }
        start(self, model, config, device, whole | set(skip_keys or ()))

    return start_average


REPLACED = ((EMA, "__init__", _of_numbers_only),)
