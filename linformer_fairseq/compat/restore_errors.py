"""Why a checkpoint does not fit the model is said last, where one looks.

What fairseq does: ``Trainer.load_checkpoint`` answers every error from ``load_state_dict`` with "Cannot load
model parameters from checkpoint ...; please ensure that the architectures match." The reason (which matrix
has which size, which option differs) stands only in an earlier traceback.

The mend: the same error, with the reason behind it.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer

from linformer_fairseq.compat.checkpoint_loading import CheckpointError
from linformer_fairseq.compat.patching import replace

_FAIRSEQ_SAYS = "Cannot load model parameters from checkpoint"


def _with_reason(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load_checkpoint(self, filename, *args, **kwargs)
        except Exception as error:
            reason = error.__context__
            if not str(error).startswith(_FAIRSEQ_SAYS) or reason is None:
                raise
            raise CheckpointError(
                f"{filename}: its parameters do not fit the model that the options describe: {reason}"
            ) from reason

    return load


def install() -> None:
    """Make the trainer name the reason when a checkpoint does not fit."""
    replace(Trainer, "load_checkpoint", _with_reason)
