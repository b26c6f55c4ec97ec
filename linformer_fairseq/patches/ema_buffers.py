"""An average of the parameters (``--store-ema``) leaves integers as they are, and goes on after a resume.

What fairseq does: it multiplies every entry of the model's state by the decay, and fails with "result type Float can't
be cast to the desired output type Long" at the first one with integers, such as the signature of our attention.
After each update, it loads the average without the encoder's version, which so looks like an early one that had no
layer norm behind the last layer; a pre-norm model loses it.
With ``--ema-update-freq`` it counts updates from 0 after each resume. A run that begins with, or resumes from, a
checkpoint without an average ends with ``KeyError: 'model'``.

The patch: entries that are not floating-point numbers are copied from the model, those that are not loaded stay as they
are, the count is that of the run's updates, and without an average, it begins with the weights that the model has
after loading, as fairseq intends.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils
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


def _of_all(restore: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(restore)
    def restore_all(self: EMA, state_dict: dict[str, Any], build_fp32_params: bool = False) -> None:
        given = {name: value for name, value in state_dict.items() if "version" not in name}
        restore(self, {**self.model.state_dict(), **given}, build_fp32_params)

    return restore_all


def _with_average(read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def read_with_average(*args: Any, **kwargs: Any) -> Any:
        state = read(*args, **kwargs)
        if (extra := state.get("extra_state")) is not None:
            extra.setdefault("ema", {})  # without it, fairseq would take the weights, which it has deleted by then
        return state

    return read_with_average


def _counting_on(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        if not (settings := self.cfg.ema).store_ema:
            return load_checkpoint(self, *args, **kwargs)
        read = checkpoint_utils.load_checkpoint_to_cpu
        checkpoint_utils.load_checkpoint_to_cpu = _with_average(read)
        try:
            extra_state = load_checkpoint(self, *args, **kwargs)
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = read
        if extra_state is not None:
            own, average = self.get_model().state_dict(), extra_state["ema"]
            if own.keys() - average.keys():  # none, or one without its last layer norm
                self.ema.restore({**own, **average}, build_fp32_params=settings.ema_fp32)
        self.ema.update_freq_counter = self.get_num_updates() % max(1, settings.ema_update_freq)
        return extra_state

    return load


REPLACED = (
    (EMA, "__init__", _of_numbers_only),
    (EMA, "restore", _of_all),
    (Trainer, "load_checkpoint", _counting_on),
)
