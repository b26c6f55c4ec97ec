"""``--amp`` divides gradients by the loss scale once.

What fairseq does: ``AMPOptimizer.clip_grad_norm`` gives torch's GradScaler the optimizer of torch, and ``step`` gives
it fairseq's optimizer around that. The scaler takes them for two, and divides the gradients once for each. Adam's
updates do not depend on the size of gradients, unless that is as small as ``--adam-eps``: with the second division it
is, and updates become smaller with every increase of the scale. On a CPU the scaler is off.

The patch: both give it the optimizer of torch.
"""

import functools
from collections.abc import Callable

from fairseq.optim.amp_optimizer import AMPOptimizer


def _of_the_unscaled(step: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(step)
    def one_step(self: AMPOptimizer) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    return one_step


REPLACED = ((AMPOptimizer, "step", _of_the_unscaled),)
