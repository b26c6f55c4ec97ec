"""Resolvers, which the configs call as ``${name:argument,...}``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from linformer_fairseq.checkpoints.released_folder import find_weights
from linformer_fairseq.files.mmap_dataset import open_dataset
from linformer_fairseq.launch.data import Splits, check_task_data

PRECISIONS = ("fp16", "bf16", "fp32")


def multiply(one: int, other: int, what: str) -> int:
    """The product.

    Raises:
        ValueError: they are no whole numbers; the message has both and ``what``.
    """
    if not isinstance(one, int) or not isinstance(other, int):
        raise ValueError(f"{what}: {one} x {other}; expected two whole numbers")
    return one * other


def divide(total: int | None, part: int | None, what: str) -> int:
    """``total / part``, which must be a whole number of at least 1.

    Raises:
        ValueError: it is not; the message has both numbers and ``what``.
    """
    if total is None or part is None:
        raise ValueError(f"{what}: one of them is null; expected two numbers")
    if total < 1 or part < 1:
        raise ValueError(f"{what}: {total:,} and {part:,}, but both must be at least 1")
    if total < part or total % part:
        raise ValueError(f"{what}: {total:,} is not a whole multiple of {part:,}; change one of them")
    return total // part


def update_freq(total: int | None, batch: int | None, length: int, world_size: int) -> int:
    """Batches per process in an update of ``total`` tokens (or sentences, if ``length`` is 1).

    Raises:
        ValueError: ``total`` is not a multiple of one batch on each process, or the size of a batch is not given.
    """
    if batch is None:
        raise ValueError(
            "dataset.batch_size=null: the number of batches in an update is computed from it; for batches of "
            "dataset.max_tokens, set optimization.update_freq=[1], too"
        )
    if world_size < 1:
        raise ValueError(
            f"distributed_training.distributed_world_size is {world_size}; expected at least 1 (with run_config=slurm, "
            "it is run.slurm.nodes x run.slurm.tasks_per_node)"
        )
    unit = "tokens" if length > 1 else "sentences"
    if total is None:
        raise ValueError(f"run.{unit}_per_update=null: expected a number of {unit}")
    each = (
        f"dataset.batch_size {batch}, by default run.tokens_per_batch / n, x {length} tokens"
        if length > 1
        else f"dataset.batch_size {batch}"
    )
    what = (
        f"run.{unit}_per_update is {total:,}, but one batch on each of {world_size} devices ({each}, "
        f"distributed_training.distributed_world_size {world_size}; with run_config=slurm, the latter is "
        f"run.slurm.nodes x run.slurm.tasks_per_node) makes {batch * length * world_size:,} {unit}"
    )
    return divide(total, batch * length * world_size, what)


def is_precision(wanted: str, precision: str) -> bool:
    """Whether the run computes in ``wanted``.

    Raises:
        ValueError: ``precision`` is not one of `PRECISIONS`.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"run.precision is {precision!r}; expected one of {', '.join(PRECISIONS)}")
    return precision == wanted


def choose(condition: bool, yes: Any, no: Any) -> Any:
    """``yes`` if ``condition``, else ``no``."""
    return yes if condition else no


def run_of(checkpoint: str | None) -> str:
    """Name of the run folder that contains a checkpoint, or of a model that comes with the package.

    Raises:
        ValueError: no checkpoint is given.
    """
    if not checkpoint:
        raise ValueError("pretrained: not given; use pretrained=runs/NAME/checkpoint_best.pt")
    return Path(find_weights(checkpoint)).absolute().parent.name


def range_of(projected_dim: Any) -> str:
    """k in the name of a folder: the smallest and the largest of several, as in "64to128".

    Raises:
        ValueError: it has no number.
    """
    values = [int(k) for k in re.findall(r"\d+", str(projected_dim))]
    if not values:
        raise ValueError(f"model.projected_dim={projected_dim}: expected k, or a list of k for each layer and head")
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least}to{most}"


def updates(epochs: int, data: str, sentences: int | None, split: str) -> int:
    """Updates of ``sentences`` examples each in ``epochs`` passes over a split of a task; an epoch's last has the rest.

    Raises:
        UserError: the task's data are not there, or are damaged.
        ValueError: ``sentences`` is not at least 1.
    """
    if sentences is None or sentences < 1:
        raise ValueError(f"run.sentences_per_update={sentences}: expected at least 1")
    check_task_data(Path(data), Splits(split, valid=()))
    return epochs * -(-open_dataset(Path(data, "label", split)).items // sentences)


def percent(part: int, whole: int) -> int:
    """``part`` % of a whole number, rounded down."""
    return whole * part // 100


def slurm_tasks() -> int:
    """Number of tasks of the current SLURM job.

    Raises:
        ValueError: there is none.
    """
    if (tasks := os.environ.get("SLURM_NTASKS")) is None:
        raise ValueError(
            "this is not a SLURM job: SLURM_NTASKS is not set; run_config=srun is for scripts/slurm/*.sbatch"
        )
    return int(tasks)


def register() -> None:
    """Register the resolvers with omegaconf; another call has no effect."""
    functions = (multiply, divide, update_freq, is_precision, choose, run_of, range_of, updates, percent, slurm_tasks)
    for function in functions:
        OmegaConf.register_new_resolver(function.__name__, function, replace=True)
