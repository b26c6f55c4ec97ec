"""Size and number of a run's checkpoints, and free disk space."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from linformer_fairseq.planning.memory import ADAM_MOMENTS, is_half, is_memory_efficient
from linformer_fairseq.planning.sizes import Sizes


@dataclass(frozen=True)
class Disk:
    """Size of the checkpoints and free space, in bytes."""

    checkpoint: int
    kept: int | None
    """Maximum number at a time; None if it depends on data that do not exist."""
    free: int
    folder: Path
    """An existing folder on their file system."""

    @property
    def suffices(self) -> bool:
        """Whether there is space for all; True if their number is not known."""
        return self.checkpoint * (self.kept or 0) <= self.free


def disk_of(config: DictConfig, sizes: Sizes, updates: int, epochs: float | None) -> Disk:
    """Disk space that a run's checkpoints need.

    Args:
        config: of the run.
        sizes: of its model.
        updates: of the whole run.
        epochs: number of fairseq's epochs, each of which is a pass over one folder of the data; None if not known.
    """
    folder = Path(config.checkpoint.save_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    kept = checkpoints_kept(config, updates, epochs)
    return Disk(checkpoint_bytes(config, sizes), kept, shutil.disk_usage(folder).free, folder)


def checkpoint_bytes(config: DictConfig, sizes: Sizes) -> int:
    """Size of one checkpoint: fairseq writes parameters, their averages (EMA) and Adam's moments, all in fp32."""
    model = sizes.parameters + sizes.frozen
    half, on_gpu = is_half(config), not config.common.cpu
    if not sizes.options.untie_weights_roberta and (is_memory_efficient(config) if half else on_gpu):
        # The output layer is tied to the embedding, but copied to the CPU as fp32 they become two tensors; float32
        # copies of weights in half precision are stored once (patches.float32_weights).
        model += sizes.vocabulary * sizes.width
    if config.ema.store_ema:
        model *= 3 if config.ema.ema_fp32 else 2
    moments = 0 if config.checkpoint.no_save_optimizer_state else ADAM_MOMENTS * sizes.parameters
    return 4 * (model + moments)


def checkpoints_kept(config: DictConfig, updates: int, epochs: float | None) -> int | None:
    """Maximum number of checkpoints at a time, including the one being written.

    Returns:
        the number; None if it depends on a number of epochs that is not known.
    """
    options = config.checkpoint
    if options.no_save:
        return 0
    kept = 1 + (not options.no_last_checkpoints) + (not config.dataset.disable_validation)
    # fairseq removes an old one only after it has written a new one and copied it to the last and best ones.
    if (best := options.keep_best_checkpoints) > 0:
        kept += best + 1
    replaced = False
    if options.save_interval_updates > 0:
        written = math.ceil(updates / options.save_interval_updates)
        limit, pattern = options.keep_interval_updates, options.keep_interval_updates_pattern
        # fairseq never removes those of a multiple of the pattern
        forever = updates // math.lcm(options.save_interval_updates, pattern) if pattern > 0 else 0
        replaced = 0 < limit < written - forever
        kept += limit + forever if replaced else written
    if not options.no_epoch_checkpoints:
        if options.keep_last_epochs > 0:
            kept += options.keep_last_epochs
            replaced = True
        elif epochs is None:
            return None
        else:
            kept += math.ceil(epochs / options.save_interval)
    return int(kept + replaced)  # a save writes one for its update or one for its epoch
