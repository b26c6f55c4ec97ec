"""Something that only the first process looks at, and all of them have to know."""

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

from linformer_fairseq.compat.checkpoint_loading import CheckpointError
from linformer_fairseq.training.control_group import gather

Result = TypeVar("Result")


def on_first_rank(look: Callable[[], Result]) -> Result | None:
    """Run ``look`` on the first process, while the others wait for it.

    Returns:
        what ``look`` returned, on the first process; None on every other one.

    Raises:
        Exception: what ``look`` raised, on the first process.
        CheckpointError: with the same text, on every other one.
    """
    result: Result | None = None
    failure: Exception | None = None
    if not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0:
        try:
            result = look()
        except Exception as error:
            failure = error
    said = gather("" if failure is None else str(failure) or type(failure).__name__)[0]
    if failure is not None:
        raise failure
    if said:
        raise CheckpointError(said)
    return result
