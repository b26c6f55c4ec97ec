"""Something that only the first process looks at, and all of them have to know."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from fairseq.distributed import utils

from linformer_fairseq.compat.checkpoint_loading import CheckpointError

Result = TypeVar("Result")


def on_first_rank(trainer: Any, look: Callable[[], Result]) -> Result | None:
    """Run ``look`` on the first process, while the others wait for it.

    Returns:
        what ``look`` returned, on the first process; None on every other one.

    Raises:
        Exception: what ``look`` raised, on the first process.
        CheckpointError: with the same text, on every other one.
    """
    if trainer.data_parallel_world_size == 1:
        return look()
    result: Result | None = None
    failure: Exception | None = None
    if trainer.data_parallel_rank == 0:
        try:
            result = look()
        except Exception as error:
            failure = error
    said = utils.broadcast_object(
        {"error": None if failure is None else str(failure)},
        src_rank=0,
        group=trainer.data_parallel_process_group,
        dist_device=trainer.device,
    )["error"]
    if failure is not None:
        raise failure
    if said is not None:
        raise CheckpointError(said)
    return result


def wait_for_all(trainer: Any) -> None:
    """Until every process is here."""
    if trainer.data_parallel_world_size > 1:
        torch.distributed.barrier(group=trainer.data_parallel_process_group)
