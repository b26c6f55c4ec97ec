"""Checkpoints are read without executing them, and an invalid file is refused by name.

What fairseq does: every one of its ``torch.load`` calls leaves ``weights_only`` to torch. Up to torch 2.5
that runs whatever the pickle names; from 2.6 on it refuses ``argparse.Namespace``, so that every resume and
every restore of a ``fairseq-train`` checkpoint fails; with ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`` it runs the
pickle again. A truncated file ends in "EOFError: Ran out of input", and a file of something else in
``KeyError: 'best_loss'``. torch compares no CRC of the zip archive: a file with other bytes in a tensor is loaded
without a word.

The patch: ``fairseq.checkpoint_utils`` (through which the trainer, ``--restore-file``,
``--finetune-from-model``, ``load_model_ensemble`` and the hub read) sees a torch whose ``load`` is
`checkpoints.reading.read_checkpoint`, and whatever goes wrong afterwards names the file, too.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils

from linformer_fairseq.checkpoints.reading import CheckpointError, not_understood, read_checkpoint


class _SafeTorch(types.ModuleType):
    """torch as ``fairseq.checkpoint_utils`` sees it: everything is torch's own, except ``load``."""

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
        except Exception as error:  # fairseq brings old options and histories up to date without looking at them
            raise not_understood(path, error) from error

    return load


REPLACED = (
    (checkpoint_utils, "load_checkpoint_to_cpu", _naming_the_file),
    (checkpoint_utils, "torch", _SafeTorch),
)
