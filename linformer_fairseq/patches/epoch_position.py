"""The position in an epoch is kept if the number of processes or the batch size changes.

What fairseq does: it stores how many batches each process has had, and skips as many when it resumes. With half as many
processes, these are half of the examples, so the run sees many of them twice; with twice as many, it leaves out as
many; and if the number exceeds the length of the new epoch, it fails with a request to report this to its developers.
With another ``--update-freq``, it counts one update too few if the batches already seen do not make up whole updates:
the last one is left out, and the epoch begins again.

The patch: the number of batches of the epoch and the number of processes are stored, too. If the epoch has as many
batches as before, the run continues with the batch after the last one; with another number of processes, fewer batches
than there are processes may be seen twice. Otherwise the same fraction of the epoch counts as done, rounded down. The
updates of an epoch are counted from its end. Iterators over several data sets (GroupedEpochBatchIterator), whose
batches are in groups, are left to fairseq.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.data.iterators import EpochBatchIterator, GroupedEpochBatchIterator, GroupedIterator

_BATCHES, _SHARDS = "batches_in_epoch", "processes"


def _with_length(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(state_dict)
    def state(self: EpochBatchIterator) -> dict[str, Any]:
        result = state_dict(self)
        if not isinstance(self, GroupedEpochBatchIterator):
            result |= {_BATCHES: len(self.frozen_batches), _SHARDS: self.num_shards}
        return result

    return state


def _at_same_position(load_state_dict: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(load_state_dict)
    def load(self: EpochBatchIterator, state: dict[str, Any]) -> None:
        done = state.get("iterations_in_epoch", 0)
        if done and _BATCHES in state:
            self.epoch = state["epoch"]  # the batches of some data sets depend on it
            state = {**state, "iterations_in_epoch": _position(done, state, len(self.frozen_batches), self.num_shards)}
        load_state_dict(self, state)

    return load


def _position(done: int, state: dict[str, Any], batches: int, shards: int) -> int:
    """Return how many batches each process skips: ``done`` if the setup is the same."""
    before = state[_BATCHES], state[_SHARDS]
    if before == (batches, shards):
        return done
    of_all = min(done * before[1], before[0])
    return of_all * batches // before[0] // shards


def _to_the_end(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def group(self: GroupedIterator, iterable: Any, chunk_size: int, skip_remainder_batch: bool = False) -> None:
        done = getattr(iterable, "n", 0)
        start(self, iterable, chunk_size, skip_remainder_batch)  # may cut the iterable to whole updates
        left = len(iterable) - done
        self.n = self.total - (left // chunk_size if skip_remainder_batch else -(-left // chunk_size))
        if skip_remainder_batch:
            iterable.take(done + left // chunk_size * chunk_size)

    return group


REPLACED = (
    (GroupedIterator, "__init__", _to_the_end),
    (EpochBatchIterator, "state_dict", _with_length),
    (EpochBatchIterator, "load_state_dict", _at_same_position),
)
