"""In an epoch's last update, a process without a further batch keeps what it has computed.

What fairseq does: with several processes, those that have fewer batches than others get empty ones, for which they
compute a forward and backward pass whose gradient is zero. With ``--update-freq`` above 1, an empty batch at the end
of an update also takes away the sample size of the batches before it, but not their gradient: the sum of gradients is
divided by too small a number, and their loss is missing in the log. With 8 processes, ``--update-freq 8`` and 57
batches in the last update, the gradient is 7 times too large.

The patch: empty batches behind others are left out. The gradients of an update are added up in its last backward pass
or after it, so that processes need not make equally many. Where they do, in ``fully_sharded``, with ``base_layers``
and on a TPU, nothing is changed.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer


def _without_fillers(train_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(train_step)
    def step(self: Trainer, samples: list[Any], *rest: Any, **more: Any) -> Any:
        in_step = self.is_fsdp or self.tpu or getattr(self.cfg.model, "base_layers", 0)
        while len(samples) > 1 and not samples[-1] and not in_step:
            samples = samples[:-1]
        return train_step(self, samples, *rest, **more)

    return step


REPLACED = ((Trainer, "train_step", _without_fillers),)
