"""An average of the parameters (``--store-ema``) leaves integers as they are, and goes on after a resume.

What fairseq does: it multiplies every entry of the model's state by the decay, and fails with "result type Float can't
be cast to the desired output type Long" at the first one with integers, such as the signature of our attention.
With ``--ema-update-freq`` it counts updates from 0 after each resume.

The patch: entries that are not floating-point numbers are copied from the model, and the count is that of the run's
updates.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.models.ema.ema import EMA
from fairseq.trainer import Trainer


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


def _counting_on(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        extra_state = load_checkpoint(self, *args, **kwargs)
        if (settings := self.cfg.ema).store_ema:
            self.ema.update_freq_counter = self.get_num_updates() % max(1, settings.ema_update_freq)
        return extra_state

    return load


REPLACED = (
    (EMA, "__init__", _of_numbers_only),
    (Trainer, "load_checkpoint", _counting_on),
)
