"""``--amp`` divides gradients by the loss scale once, and begins and raises it as its options say.

What fairseq does: ``AMPOptimizer.clip_grad_norm`` gives torch's GradScaler the optimizer of torch, and ``step`` gives
it fairseq's optimizer around that. The scaler takes them for two, and divides the gradients once for each. Adam's
updates do not depend on the size of gradients, unless that is as small as ``--adam-eps``: with the second division it
is, and updates become smaller with every increase of the scale. On a CPU the scaler is off. The scale begins with
``--fp16-init-scale``, and is raised after ``--amp-init-scale`` updates, where ``--amp-scale-window`` is given.

The patch: both give it the optimizer of torch; the scale begins with ``--amp-init-scale``, and is raised after
``--amp-scale-window`` updates (torch's default without).
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.optim.amp_optimizer import AMPOptimizer
from torch.amp import GradScaler


def _of_the_unscaled(step: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(step)
    def one_step(self: AMPOptimizer) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    return one_step


def _as_options_say(make: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(make)
    def init(self: AMPOptimizer, cfg: Any, *rest: Any, **more: Any) -> None:
        make(self, cfg, *rest, **more)
        window = cfg.common.amp_scale_window
        growth = {} if window is None else {"growth_interval": window}
        self._grad_scaler = GradScaler("cuda", init_scale=cfg.common.amp_init_scale, **growth)

    return init


REPLACED = ((AMPOptimizer, "step", _of_the_unscaled), (AMPOptimizer, "__init__", _as_options_say))
