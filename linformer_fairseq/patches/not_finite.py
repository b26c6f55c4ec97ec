"""A loss or gradient that is not finite ends the run; the log has the batches that it came from.

What fairseq does: a gradient that is not finite ends a run in fp32 and bf16, with a dump of all gradients but without
the update and the examples; with several GPUs, the error says that the gradients are "inconsistent between workers". In
fp16, the loss scale is halved about thirty times first. A loss that is not finite but has finite gradients is not
detected.

The patch: every process logs the update, the ids of its examples (their indices in the binarized data, from fairseq's
batches) and the loss of each micro-batch. In fp16, a gradient overflow still lowers the loss scale, but no scale helps
if the loss itself is not finite: it ends the run at once. fairseq's crash.pt and its search for the module that caused
the value (NanDetector) are not changed.
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
    """One call of the trainer's train_step: its examples and losses on this process."""

    def __init__(self, trainer: Trainer, samples: list[Any]) -> None:
        self.number = trainer.get_num_updates() + 1
        self._trainer, self._samples = trainer, samples
        self._losses: list[torch.Tensor] = []
        self._logged = False

    def take_loss(self, _module: Any, _inputs: Any, output: Any) -> None:
        """Store a loss: a forward hook of the criterion. Losses that fairseq recomputes come after the others."""
        self._losses.append(output[0].detach())

    def _values(self) -> list[float]:
        return [loss.double().sum().item() for loss in self._losses[: len(self._samples)]]

    def finite_everywhere(self) -> bool:
        """Return whether the losses are finite on all processes; all must call it."""
        bad = torch.tensor([float(not all(map(math.isfinite, self._values())))], device=self._trainer.device)
        if self._trainer.data_parallel_world_size > 1:
            utils.all_reduce(bad, group=self._trainer.data_parallel_process_group)
        return not bad.item()

    def log(self) -> None:
        """Log the examples, once."""
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
            "The log above lists the examples of each micro-batch. Earlier checkpoints are kept. If training "
            "diverged, a lower learning rate, a longer warm-up or a limit of the gradient (clip_norm) helps; otherwise "
            "inspect these examples"
        )


def _ids(sample: Any) -> Any:
    if not sample:
        return "none (a dummy batch)"
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
        except NotFiniteError:  # amp retries a batch recursively
            raise
        except Exception as error:
            if not _is_floating_point(error):
                raise
            update.end()
        finally:
            hook.remove()
            vars(self).pop(_UPDATE, None)
        # In fp16, no output means an overflow, on all processes: rare enough for a collective call. So is a reported
        # loss of 0/0, where no token of the update was masked; its gradient is zero.
        scaled = self.cfg.common.fp16 or self.cfg.common.amp
        suspect = not math.isfinite(output.get("loss", 0.0)) if output else scaled
        if suspect and not update.finite_everywhere():
            update.end()
        return output

    return step


def _is_floating_point(error: BaseException | None) -> bool:
    """Return whether the error or one in its context is a FloatingPointError: fairseq's handling can fail, too."""
    while error is not None:
        if isinstance(error, FloatingPointError):
            return True
        error = error.__context__
    return False


def _named_before_crash(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save_checkpoint)
    def save(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        # The end of another process may end the first one while it writes a large crash.pt.
        if isinstance(sys.exception(), FloatingPointError) and hasattr(self, _UPDATE):
            getattr(self, _UPDATE).log()
        return save_checkpoint(self, *args, **kwargs)

    return save


REPLACED = (
    (Trainer, "train_step", _with_batches_named),
    (Trainer, "save_checkpoint", _named_before_crash),
)
