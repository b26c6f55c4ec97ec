"""If a checkpoint does not fit the model, the error has the reason.

What fairseq does: ``Trainer.load_checkpoint`` replaces every error of ``load_state_dict`` by "Cannot load model
parameters from checkpoint ...; please ensure that the architectures match." The reason (which matrix has which
size, which option differs) is only in an earlier traceback. The error of ``load_model_ensemble_and_task``, which the
hub interface uses, has the reason without the file. A run that is resumed in another precision ends with an assertion
about the classes of optimizers.

The patch: one error with both, which says what to do.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from linformer_fairseq.checkpoints.reading import CheckpointError

# torch's message, and that of our attention for differences that shapes do not show.
_MODELS_SAY = ("Error(s) in loading state_dict", "the checkpoint does not fit the model")
_FAIRSEQ_SAYS = "Cannot load model parameters from checkpoint"
_TORCH_SAYS = "loaded state dict "
"""Of an optimizer's parameters that are others in number or size."""
_REMEDY = (
    "continue with the same, or begin to count updates anew with checkpoint.reset_optimizer=true (fairseq-train: "
    "--reset-optimizer)"
)
_ANOTHER = re.compile("(Criterion|Optimizer) does not match; [^.]*. (.+) vs (.+)")


def _with_reason(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load_checkpoint(self, filename, *args, **kwargs)
        except AssertionError as error:
            if (found := _ANOTHER.fullmatch(str(error))) is None:
                raise
            kind, theirs, ours = found.groups()
            of = ", which depends on the precision" if kind == "Optimizer" else ""
            other = f"another {kind.lower()}{of}: {theirs}, not {ours}"
            raise CheckpointError(f"{filename}: was saved by a run with {other}; {_REMEDY}") from error
        except ValueError as error:
            if not str(error).startswith(_TORCH_SAYS):
                raise
            raise CheckpointError(
                f"{filename}: the state of its optimizer is that of other parameters (layers, heads or frozen weights "
                f"differ, or fp16, which joins parameters, and another precision); {_REMEDY}"
            ) from error
        except Exception as error:
            reason = error.__context__
            if not str(error).startswith(_FAIRSEQ_SAYS) or not isinstance(reason, Exception):
                raise
            raise CheckpointError(does_not_fit(filename, reason)) from reason

    return load


def _naming_the_files(load_model_ensemble_and_task: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_model_ensemble_and_task)
    def load(filenames: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        try:
            return load_model_ensemble_and_task(filenames, *args, **kwargs)
        except (RuntimeError, ValueError) as error:
            if not str(error).startswith(_MODELS_SAY):
                raise
            raise CheckpointError(does_not_fit(", ".join(filenames), error)) from error

    return load


def does_not_fit(name: str, error: Exception) -> str:
    """Return the message for weights that do not fit a model."""
    return f"{name}: its parameters do not fit the model that the options describe: {' '.join(str(error).split())}"


REPLACED = (
    (checkpoint_utils, "load_model_ensemble_and_task", _naming_the_files),
    (Trainer, "load_checkpoint", _with_reason),
)
