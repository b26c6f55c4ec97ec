"""Checkpoints of a run: how large, how many, and what is free where they go."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from linformer_fairseq.planning.memory import ADAM_MOMENTS, is_half
from linformer_fairseq.planning.sizes import Sizes


@dataclass(frozen=True)
class Disk:
    """Bytes of the checkpoints, and what is free where they go."""

    checkpoint: int
    kept: int | None
    """Most that are there at once; None where it depends on data that are not there."""
    free: int
    folder: Path
    """The existing folder whose file system it is."""

    @property
    def suffices(self) -> bool:
        """Whether all of them find room, as far as their number is known."""
        return self.checkpoint * (self.kept or 0) <= self.free


def disk_of(config: DictConfig, sizes: Sizes, epochs: float | None) -> Disk:
    """Room that a run's checkpoints need.

    Args:
        config: of the run.
        sizes: of its model.
        epochs: over the data; None where they are not there.
    """
    folder = Path(config.checkpoint.save_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    return Disk(
        checkpoint_bytes(config, sizes), checkpoints_kept(config, epochs), shutil.disk_usage(folder).free, folder
    )


def checkpoint_bytes(config: DictConfig, sizes: Sizes) -> int:
    """Size of one checkpoint: fairseq writes all numbers as fp32, and Adam's moments with them."""
    model = sizes.parameters + sizes.frozen
    if not sizes.options.untie_weights_roberta and (is_half(config) or not config.common.cpu):
        # The output layer is the embedding, but brought to the CPU as fp32 they become two tensors.
        model += sizes.vocabulary * sizes.width
    moments = 0 if config.checkpoint.no_save_optimizer_state else ADAM_MOMENTS * sizes.parameters
    return 4 * (model + moments)


def checkpoints_kept(config: DictConfig, epochs: float | None) -> int | None:
    """Most checkpoints that are there at once, the one being written included.

    Returns:
        their number; None where it depends on a number of epochs that is not known.
    """
    options = config.checkpoint
    if options.no_save:
        return 0
    kept = 1 + (not options.no_last_checkpoints) + (not config.dataset.disable_validation)
    kept += max(options.keep_best_checkpoints, 0)
    if options.save_interval_updates > 0:
        written = math.ceil(config.optimization.max_update / options.save_interval_updates)
        limit = options.keep_interval_updates
        kept += min(written, limit) if limit > 0 else written
    if not options.no_epoch_checkpoints:
        if options.keep_last_epochs > 0:
            kept += options.keep_last_epochs
        elif epochs is None:
            return None
        else:
            kept += math.ceil(epochs / options.save_interval)
    return int(kept)
