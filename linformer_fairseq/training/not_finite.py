"""A loss or a gradient that is not finite ends the run, with the batches it came from in the log.

What fairseq does: a gradient that is not finite ends a run in fp32 and bf16, with a dump of all gradients but
without a word about which update and which examples it was; with several GPUs it says that the gradients are
"inconsistent between workers". In fp16 it halves the loss scale some thirty times first. A loss that is not finite
but has finite gradients goes unnoticed.

Here: every process logs the update, the ids of its examples (their indices in the binarised data, as fairseq's
batches have them) and the loss of each micro-batch. In fp16 an overflow of the gradients is still answered by
another loss scale, but no scale mends a loss that is not finite itself: it ends the run at once. fairseq's crash.pt
and its search for the module where it began stay as they are.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from fairseq.distributed import utils
from fairseq.trainer import Trainer

from linformer_fairseq.compat.patching import replace
from linformer_fairseq.training.run_log import LOG


class NotFiniteError(FloatingPointError):
    """A loss or a gradient is NaN or infinite; the message says at which update."""


def _with_batches_named(train_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(train_step)
    def step(self: Trainer, samples: list[Any], *args: Any, **kwargs: Any) -> Any:
        update = self.get_num_updates() + 1
        losses: list[Any] = []
        hook = self.criterion.register_forward_hook(lambda _module, _inputs, output: losses.append(output[0].detach()))
        try:
            output = train_step(self, samples, *args, **kwargs)
        except NotFiniteError:  # amp tries a batch again from within
            raise
        except Exception as error:
            if not _is_floating_point(error):
                raise
            _end(self, update, samples, losses)
        finally:
            hook.remove()
        # No output in fp16 is an overflow, on every process: rare enough to ask the others about their losses.
        scaled = self.cfg.common.fp16 or self.cfg.common.amp
        finite = math.isfinite(output.get("loss", 0.0)) if output else not scaled or _finite_everywhere(self, losses)
        if not finite:
            _end(self, update, samples, losses)
        return output

    return step


def _is_floating_point(error: BaseException | None) -> bool:
    """Also where fairseq's search for the module, or its crash.pt, failed on the way."""
    while error is not None:
        if isinstance(error, FloatingPointError):
            return True
        error = error.__context__
    return False


def _finite_everywhere(trainer: Trainer, losses: list[torch.Tensor]) -> bool:
    bad = torch.tensor([float(not all(loss.isfinite().all() for loss in losses))], device=trainer.device)
    if trainer.data_parallel_world_size > 1:
        utils.all_reduce(bad, group=trainer.data_parallel_process_group)
    return not bad.item()


def _end(trainer: Trainer, update: int, samples: list[Any], losses: list[torch.Tensor]) -> NoReturn:
    """Log what this process had in its hands, and raise.

    Args:
        samples: the micro-batches of the update.
        losses: of each micro-batch, and behind them those that fairseq computed again.
    """
    values = [loss.double().sum().item() for loss in losses[: len(samples)]]
    what = "the gradient" if all(map(math.isfinite, values)) else "the loss"
    rank = trainer.data_parallel_rank
    for number, sample in enumerate(samples):
        loss = f"{values[number]:g}" if number < len(values) else "not computed"
        LOG.error(
            f"update {update}, process {rank}, micro-batch {number + 1} of {len(samples)}: loss {loss} (summed), "
            f"ids {_ids(sample)}"
        )
    raise NotFiniteError(
        f"update {update}: {what} is not finite on process {rank} or another one. The log above names the examples of "
        "each micro-batch. The checkpoints saved before are kept. A lower learning rate, a longer warm-up or "
        "--clip-norm helps where it diverged; otherwise look at these examples"
    )


def _ids(sample: Any) -> Any:
    if not sample:
        return "none (a batch that only fills up)"
    ids = sample.get("id")
    return ids.tolist() if isinstance(ids, torch.Tensor) else "unknown"


def install() -> None:
    """Make every training step name the batches where something is not finite."""
    replace(Trainer, "train_step", _with_batches_named)
