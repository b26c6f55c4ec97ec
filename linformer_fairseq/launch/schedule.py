"""The learning rate over a run, computed by fairseq's schedulers before the run starts.

Their options are checked by running them, because each scheduler checks only some of its own, with assertions. Those of
plugins, which may need an optimizer of their own, are not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, build_lr_scheduler
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from linformer_fairseq.files.errors import UserError

_LOOKED_AT = 1000
"""Updates of a run for which the learning rate is computed, beside the first ones."""
_OF_THE_OPTIMIZER = "pass_through"
"""The scheduler that leaves the learning rate to the optimizer."""


class _Optimizer(FairseqOptimizer):
    """Has a learning rate, and nothing to train.

    torch loads its compiler for the first optimizer, which takes seconds, so there is none unless a scheduler asks.
    """

    def __init__(self, lr: float) -> None:
        super().__init__(None)
        self._rates: list[dict[str, Any]] = [{"lr": lr}]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._rates

    @functools.cached_property
    def _optimizer(self) -> torch.optim.Optimizer:
        """Of reduce_lr_on_plateau, which hands it to torch."""
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=self._rates[0]["lr"])
        self._rates = optimizer.param_groups  # from here on torch sets the rate
        return optimizer


def check_schedule(config: DictConfig) -> None:
    """Raise for a run without an end, or whose learning rate cannot be computed, is negative or never reached.

    Args:
        config: resolved, from `options.with_defaults`, with numbers in their ranges.

    Raises:
        UserError: with the option, its value and what was expected.
    """
    if not config.optimization.max_update and not config.optimization.max_epoch:
        raise UserError("optimization.max_update=0, and no max_epoch: the run would never end; set one of them")
    rates = list(config.optimization.lr)
    if config.lr is not None and rates != [config.lr]:
        # lr is in the name of a finetuning's folder, and in its grid
        right = "lr=VALUE" if config.run.stage == "finetuning" else "optimization.lr=[VALUE]"
        raise UserError(f"lr={config.lr:g}, but optimization.lr={rates}: set the learning rate with {right} alone")
    scheduler = config.lr_scheduler
    last = scheduler.get("total_num_update")
    if scheduler._name == "polynomial_decay" and not float(last or 0) > 0:
        raise UserError(
            f"lr_scheduler.total_num_update={last}: expected the update at which the learning rate is 0; it is "
            "optimization.max_update unless it is set"
        )
    # An explicit total_num_update may be more than max_update: the first part of a run that goes on later.
    updates = config.optimization.max_update
    name, end = "optimization.max_update", updates
    if last and float(last) != updates:
        name, end = "lr_scheduler.total_num_update", last
    if end and scheduler.get("warmup_updates", 0) >= float(end):
        raise UserError(
            f"lr_scheduler.warmup_updates={scheduler.warmup_updates}, but {name} is {float(end):,.0f}: the learning "
            "rate would never be reached; use a smaller number"
        )
    kind = LR_SCHEDULER_REGISTRY.get(scheduler._name)
    if kind is None or not kind.__module__.startswith("fairseq."):
        return
    if scheduler._name == _OF_THE_OPTIMIZER:
        optimizer = OPTIMIZER_REGISTRY[config.optimizer._name]
        known = optimizer.__module__.startswith(("fairseq.", "linformer_fairseq."))
        if known and not hasattr(optimizer, "lr_scheduler"):
            raise UserError(
                f"lr_scheduler._name={scheduler._name}: for optimizers with a learning rate of their own, which "
                f"{config.optimizer._name} is not"
            )
        return
    try:
        for update, rate in _learning_rates(config):
            if isinstance(rate, complex) or not 0 <= rate < math.inf:
                raise ValueError(f"the learning rate of update {update:,} would be {rate:g}")
    except MissingMandatoryValue as error:
        raise UserError(f"lr_scheduler.{error.full_key}: missing; {scheduler._name} has no default for it") from None
    except (ArithmeticError, AssertionError, ValueError) as error:
        given: Any = OmegaConf.to_container(scheduler, resolve=True)
        options = ", ".join(f"{key}={value}" for key, value in given.items() if key != "_name" and value is not None)
        why = str(error) or "fairseq refuses one of them"
        raise UserError(f"lr_scheduler: {scheduler._name} cannot be used with {options}: {why}") from None


def _learning_rates(config: DictConfig) -> Iterator[tuple[int, float]]:
    """Some updates from the first to the last, and their learning rates; without a number of updates, one epoch's."""
    scheduler = build_lr_scheduler(config.lr_scheduler, _Optimizer(config.optimization.lr[0]))
    scheduler.step_begin_epoch(1)
    updates = config.optimization.max_update or _LOOKED_AT
    for update in (*range(min(updates, 3)), *range(3, updates, updates // _LOOKED_AT + 1), updates):
        yield update, scheduler.step_update(update)
