"""A loss or a gradient that is not finite ends the run, with the batches it came from in the log.

What fairseq does: a gradient that is not finite ends a run in fp32 and bf16, with a dump of all gradients but
without a word about which update and which examples it was; with several GPUs it says that the gradients are
"inconsistent between workers". In fp16 it halves the loss scale some thirty times first. A loss that is not finite
but has finite gradients goes unnoticed.

The patch: every process logs the update, the ids of its examples (their indices in the binarised data, as fairseq's
batches have them) and the loss of each micro-batch. In fp16 an overflow of the gradients is still answered by
another loss scale, but no scale helps where the loss itself is not finite: it ends the run at once. fairseq's crash.pt
and its search for the module where it began stay as they are.
"""

import functools
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from fairseq.distributed import utils
from fairseq.trainer import Trainer

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.training.run_report import LOG

_UPDATE = "_linformer_update"


class NotFiniteError(UserError, FloatingPointError):
    """A loss or a gradient is NaN or infinite; the message says at which update."""


class _Update:
    """One call of the trainer's train_step: what this process has in its hands."""

    def __init__(self, trainer: Trainer, samples: list[Any]) -> None:
        self.number = trainer.get_num_updates() + 1
        self._trainer, self._samples = trainer, samples
        self._losses: list[torch.Tensor] = []
        self._logged = False

    def take_loss(self, _module: Any, _inputs: Any, output: Any) -> None:
        """Keep a loss: a forward hook of the criterion. What fairseq computes again comes after the micro-batches."""
        self._losses.append(output[0].detach())

    def _values(self) -> list[float]:
        return [loss.double().sum().item() for loss in self._losses[: len(self._samples)]]

    def finite_everywhere(self) -> bool:
        """Tell whether the losses are finite on every process; all of them have to call it."""
        bad = torch.tensor([float(not all(map(math.isfinite, self._values())))], device=self._trainer.device)
        if self._trainer.data_parallel_world_size > 1:
            utils.all_reduce(bad, group=self._trainer.data_parallel_process_group)
        return not bad.item()

    def log(self) -> None:
        """Say once which examples there were."""
        if self._logged:
            return
        self._logged = True
        values, count = self._values(), len(self._samples)
        for number, sample in enumerate(self._samples):
            loss = f"{values[number]:g}" if number < len(values) else "not computed"
            LOG.error(
                f"update {self.number}, process {self._trainer.data_parallel_rank}, "
                f"micro-batch {number + 1} of {count}: loss {loss} (summed), ids {_ids(sample)}"
            )

    def end(self) -> NoReturn:
        """Log the examples, and raise NotFiniteError."""
        self.log()
        what = "the gradient" if all(map(math.isfinite, self._values())) else "the loss"
        raise NotFiniteError(
            f"update {self.number}: {what} is not finite on process {self._trainer.data_parallel_rank} or another one. "
            "The log above names the examples of each micro-batch. The checkpoints saved before are kept. A lower "
            "learning rate, a longer warm-up or --clip-norm helps where it diverged; otherwise look at these examples"
        )


def _ids(sample: Any) -> Any:
    if not sample:
        return "none (a batch that only fills up)"
    ids = sample.get("id")
    return ids.tolist() if isinstance(ids, torch.Tensor) else "unknown"


def _with_batches_named(train_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(train_step)
    def step(self: Trainer, samples: list[Any], *args: Any, **kwargs: Any) -> Any:
        update = _Update(self, samples)
        setattr(self, _UPDATE, update)
        hook = self.criterion.register_forward_hook(update.take_loss)
        try:
            output = train_step(self, samples, *args, **kwargs)
        except NotFiniteError:  # amp tries a batch again from within
            raise
        except Exception as error:
            if not _is_floating_point(error):
                raise
            update.end()
        finally:
            hook.remove()
            vars(self).pop(_UPDATE, None)
        # No output in fp16 is an overflow, on every process: rare enough to ask the others about their losses.
        scaled = self.cfg.common.fp16 or self.cfg.common.amp
        finite = math.isfinite(output.get("loss", 0.0)) if output else not scaled or update.finite_everywhere()
        if not finite:
            update.end()
        return output

    return step


def _is_floating_point(error: BaseException | None) -> bool:
    """Tell whether it began with one, also where fairseq's search for the module, or its crash.pt, failed then."""
    while error is not None:
        if isinstance(error, FloatingPointError):
            return True
        error = error.__context__
    return False


def _named_before_crash(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save_checkpoint)
    def save(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        # The first process may be ended by the end of another one while it writes a large crash.pt.
        if isinstance(sys.exception(), FloatingPointError) and hasattr(self, _UPDATE):
            getattr(self, _UPDATE).log()
        return save_checkpoint(self, *args, **kwargs)

    return save


REPLACED = (
    (Trainer, "train_step", _with_batches_named),
    (Trainer, "save_checkpoint", _named_before_crash),
)
