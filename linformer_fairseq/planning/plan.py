"""The cost of a run, computed from its config."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.planning.data import Data, data_of
from linformer_fairseq.planning.disk import Disk, disk_of
from linformer_fairseq.planning.flops import Flops, flops_of
from linformer_fairseq.planning.memory import Memory, memory_of, size_text
from linformer_fairseq.planning.sizes import Sizes, sizes_of
from linformer_fairseq.tasks import SENTENCE_PREDICTION


@dataclass(frozen=True)
class Time:
    """How long the run takes, and the assumptions behind the estimate."""

    hours: float
    basis: str


@dataclass(frozen=True)
class Plan:
    """The cost of one run."""

    name: str
    stage: str
    sizes: Sizes
    data: Data
    length: float
    """Positions of a sequence: n, or the mean of a task's examples."""
    sequences_per_update: int
    updates: int
    world_size: int
    flops: Flops
    """For one sequence."""
    epochs: float | None
    """Passes over all of the data; None if they are not known."""
    time: Time | None
    memory: Memory
    disk: Disk
    warnings: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return self.sizes.parameters

    @property
    def tokens_per_update(self) -> float:
        """Positions per update, over all devices."""
        return self.sequences_per_update * self.length

    @property
    def total_tokens(self) -> float:
        """Positions in the whole run."""
        return self.updates * self.tokens_per_update

    @property
    def flops_per_update(self) -> float:
        """FLOPs per update, forward and backward, over all devices."""
        return self.sequences_per_update * self.flops.training


def plan(config: DictConfig) -> Plan:
    """Estimate the cost of a run without building its model. Padding and validation are not counted.

    Args:
        config: from `launch.compose` or `launch.complete`.

    Raises:
        ValueError: contradictory options, or a task or model whose cost is not known.
    """
    config = with_defaults(config)
    if config.task._name not in (known := ("masked_lm", *SENTENCE_PREDICTION)):
        raise ValueError(f"task._name={config.task._name}: its cost is not known, only that of {', '.join(known)}")
    data = data_of(config)
    with warnings.catch_warnings(record=True) as of_settings:  # such as those about k and n
        warnings.simplefilter("always")
        sizes = sizes_of(config, data.vocabulary)
    pretraining = not sizes.classes
    # Blocks of pretraining are full; examples of a task, and single lines, have their mean length, if known.
    length: float = config.task.tokens_per_sample if pretraining else sizes.n
    if data.sequences:
        assert data.tokens is not None
        length = data.tokens / data.sequences
    share = config.task.mask_prob if pretraining else 0.0  # of the positions is masked
    world_size = config.distributed_training.distributed_world_size
    batch = _batch(config, length)
    sequences = int(batch * config.optimization.update_freq[0] * world_size)
    # fairseq's epoch is a pass over one of the folders
    shards = len(str(OmegaConf.select(config, "task.data")).split(":"))
    in_epoch = _updates_in_epoch(data, length, sequences * shards)
    updates = _updates(config, in_epoch)
    passes = updates / in_epoch if in_epoch else None
    flops = flops_of(sizes, length, share * length)
    # A batch of examples or lines is as long as its longest one.
    longest = float(data.longest or (length if pretraining else sizes.n))
    memory = memory_of(config, sizes, batch, longest, share * longest)
    tokens = config.dataset.max_tokens
    if tokens is not None and tokens < batch * longest:  # a batch has many short sequences, or few long ones
        shapes = [(batch, tokens / batch), (max(1.0, tokens // longest), longest)]
        batches = [memory_of(config, sizes, count, size, share * size) for count, size in shapes]
        memory = max(batches, key=lambda one: one.total)
    disk = disk_of(config, sizes, updates, passes)
    found = [str(warning.message) for warning in of_settings]
    found += _warnings(config, data, sizes, memory, disk, sequences, length)
    return Plan(
        name=config.run.name,
        stage=config.run.stage,
        sizes=sizes,
        data=data,
        length=length,
        sequences_per_update=sequences,
        updates=updates,
        world_size=world_size,
        flops=flops,
        epochs=passes / shards if passes else None,
        time=_time(config, sequences * updates, length, flops, world_size),
        memory=memory,
        disk=disk,
        warnings=tuple(found),
    )


def _batch(config: DictConfig, length: float) -> float:
    """Sequences in a batch on one device."""
    if config.dataset.batch_size is not None:
        return float(config.dataset.batch_size)
    if config.dataset.max_tokens is not None:
        return max(1.0, config.dataset.max_tokens // length)
    raise ValueError("neither dataset.batch_size nor dataset.max_tokens is set: the size of an update is not known")


def _updates(config: DictConfig, in_epoch: int | None) -> int:
    """Updates until max_update or max_epoch, whichever comes first; max_update alone if the data are not known.

    Raises:
        ValueError: there is only max_epoch, and the data are not known.
    """
    most, epochs = config.optimization.max_update, config.optimization.max_epoch
    if epochs and in_epoch:
        return min(most or math.inf, epochs * in_epoch)
    if not most:
        raise ValueError(
            f"optimization.max_epoch={epochs} without max_update, and the data of task.data cannot be counted: the "
            "number of updates is not known"
        )
    return int(most)


def _updates_in_epoch(data: Data, length: float, sequences: int) -> int | None:
    """Updates of ``sequences`` in one pass over the data, the last of which has the rest; None if not known."""
    if data.tokens is None:
        return None
    # each block begins with <s>, which is not in the data
    return max(1, math.ceil((data.sequences or data.tokens / (length - 1)) / sequences))


def _time(config: DictConfig, sequences: int, length: float, flops: Flops, world_size: int) -> Time | None:
    options = config.run.plan
    for name in ("tokens_per_second", "mfu", "peak_tflops"):
        if (value := options[name]) is not None and not 1e-9 <= value <= 1e15:
            raise ValueError(f"run.plan.{name}={value}: expected a positive number, from 1e-9 to 1e15")
    if options.mfu > 1:
        raise ValueError(f"run.plan.mfu={options.mfu}: expected a fraction of the peak, at most 1")
    if options.tokens_per_second:
        hours = sequences * length / (options.tokens_per_second * world_size) / 3600
        return Time(hours, f"at {options.tokens_per_second:,.0f} tokens/s each (run.plan.tokens_per_second)")
    if config.common.cpu:
        return None  # the peak is that of a GPU
    hours = sequences * flops.training / (options.mfu * options.peak_tflops * 1e12 * world_size) / 3600
    return Time(
        hours, f"at {options.mfu:.0%} (run.plan.mfu) of {options.peak_tflops:g} TFLOPS (run.plan.peak_tflops) each"
    )


def _warnings(
    config: DictConfig, data: Data, sizes: Sizes, memory: Memory, disk: Disk, sequences: int, length: float
) -> list[str]:
    found = []
    if data.problem:
        found.append(f"the data cannot be counted: {data.problem}")
    if data.tokens is not None and data.tokens < sequences * (length if data.sequences else length - 1):
        found.append(
            f"the data have {data.tokens:,} tokens, fewer than an update of {sequences * length:,.0f}: fairseq ends an "
            "update at the end of an epoch, so updates will be smaller than estimated here"
        )
    if not memory.fits:
        lower = "run.tokens_per_batch" if not sizes.classes else "dataset.batch_size"
        of_tokens = config.dataset.batch_size is None
        if of_tokens and config.dataset.max_tokens != config.run.get("tokens_per_batch"):  # else computed from that
            lower = "dataset.max_tokens"
        found.append(f"{size_text(memory.total)} may not fit into {size_text(memory.device)}: lower {lower}")
    if disk.kept and not disk.suffices:
        fewer = "lower" if config.checkpoint.keep_interval_updates > 0 else "set"
        found.append(
            f"{disk.kept:,} checkpoints need {size_text(disk.kept * disk.checkpoint)}, but {disk.folder} has "
            f"{size_text(disk.free)} free: choose another run.runs, or {fewer} checkpoint.keep_interval_updates"
        )
    if config.optimizer._name not in ("adam", "fused_adamw"):
        found.append(
            f"memory and disk are estimated for Adam's moments, but optimizer._name is {config.optimizer._name}"
        )
    return found
