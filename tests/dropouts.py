"""Which dropout a model applies, and in which order."""

from __future__ import annotations

from collections.abc import Callable

from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import nn


def applied(model: nn.Module, run: Callable[[], object]) -> list[float]:
    """The probabilities of the dropout modules, in the order in which a training step ``run`` applies them.

    Dropout on the attention's probabilities is no module, and not among them.
    """
    found: list[float] = []
    model.train()
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: found.append(module.p))
        for module in model.modules()
        if isinstance(module, nn.Dropout | FairseqDropout)
    ]
    run()
    for hook in hooks:
        hook.remove()
    return found
