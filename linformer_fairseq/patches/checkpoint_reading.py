"""Loading a checkpoint executes no code from it; errors name the file.

What fairseq does: all its ``torch.load`` calls use the default of ``weights_only``. Up to torch 2.5, code in the pickle
is executed; from 2.6 on, ``argparse.Namespace`` is refused, so that every resume and every restore of a
``fairseq-train`` checkpoint fails; with ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``, code is executed again. A truncated
file causes "EOFError: Ran out of input", and another kind of file ``KeyError: 'best_loss'``. torch does not verify the
CRCs of the zip archive: a file with altered bytes in a tensor is loaded without an error.

The patch: in ``fairseq.checkpoint_utils`` (used by the trainer, ``--restore-file``, ``--finetune-from-model``,
``load_model_ensemble`` and the hub interface), ``torch.load`` is replaced by `checkpoints.reading.read_checkpoint`;
errors that are raised after loading name the file, too.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils

from linformer_fairseq.checkpoints.reading import CheckpointError, not_understood, read_checkpoint


class _SafeTorch(types.ModuleType):
    """The ``torch`` of ``fairseq.checkpoint_utils``: torch itself, except for ``load``."""

    def __init__(self, _: Any) -> None:
        super().__init__("torch", torch.__doc__)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def load(self, file: Any, map_location: Any = "cpu") -> dict[str, Any]:
        return read_checkpoint(file, map_location)


def _naming_the_file(load_checkpoint_to_cpu: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint_to_cpu)
    def load(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load_checkpoint_to_cpu(path, *args, **kwargs)
        except (CheckpointError, OSError):
            raise
        except Exception as error:  # fairseq upgrades old options and histories without validating them
            raise not_understood(path, error) from error

    return load


REPLACED = (
    (checkpoint_utils, "load_checkpoint_to_cpu", _naming_the_file),
    (checkpoint_utils, "torch", _SafeTorch),
)
