"""Where in an epoch a run goes on, on the same and on other numbers of processes."""

from typing import Any

import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator, GroupedEpochBatchIterator, GroupedIterator

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)


class _Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 120


def _iterator(batch_size: int = 4, shards: int = 1, shard: int = 0, epoch: int = 1) -> EpochBatchIterator:
    batches = [list(range(start, start + batch_size)) for start in range(0, 120, batch_size)]
    return EpochBatchIterator(
        _Numbers(), list, batches, seed=1, num_shards=shards, shard_id=shard, num_workers=0, epoch=epoch
    )


def _stopped_after(done: int, **setup: Any) -> dict[str, Any]:
    iterator = _iterator(**setup)
    batches = iterator.next_epoch_itr()
    for _ in range(done):
        next(batches)
    return iterator.state_dict()


def _rest(state: dict[str, Any], **setup: Any) -> list[list[int]]:
    iterator = _iterator(**setup)
    iterator.load_state_dict(state)
    return [batch for batch in iterator.next_epoch_itr() if batch]


def _whole_epoch() -> list[list[int]]:
    return list(_iterator().next_epoch_itr())


def test_same_setup_is_exact() -> None:
    for done in (0, 1, 13, 29):
        assert _rest(_stopped_after(done)) == _whole_epoch()[done:]


def test_at_the_end_of_an_epoch_the_next_one_begins() -> None:
    state = _stopped_after(30)
    assert (state["epoch"], state["iterations_in_epoch"]) == (2, 0)
    assert len(_rest(state, shards=2)) == 15


@pytest.mark.parametrize(("before", "now"), [(2, 1), (1, 2), (2, 3), (3, 2), (4, 1), (1, 7), (7, 1)])
def test_other_processes_go_on_with_the_next_batch(before: int, now: int) -> None:
    for done in range(1, 30 // before + 1):
        state = _stopped_after(done, shards=before)
        if state["epoch"] == 2:
            continue
        rests = [_rest(state, shards=now, shard=shard) for shard in range(now)]
        left = sorted(batch for rest in rests for batch in rest)
        first = done * before // now * now  # all processes begin at the same place: some batches may come twice
        assert left == sorted(_whole_epoch()[first:])
        assert 0 <= done * before - first < now


@pytest.mark.parametrize("batch_size", [2, 3, 8, 24, 60])
def test_other_batches_begin_at_the_same_fraction(batch_size: int) -> None:
    batches = 120 // batch_size
    for done in range(1, 30):
        rest = _rest(_stopped_after(done), batch_size=batch_size)
        assert len(rest) == batches - done * batches // 30 > 0


@pytest.mark.parametrize("chunk", [1, 2, 4, 7, 30])
@pytest.mark.parametrize("skip_remainder", [False, True])
def test_another_update_freq_goes_on_to_the_end_of_the_epoch(chunk: int, skip_remainder: bool) -> None:
    whole = 30 // chunk * chunk if skip_remainder else 30
    for done in range(whole):
        iterator = _iterator()
        iterator.load_state_dict(_stopped_after(done))
        updates = GroupedIterator(iterator.next_epoch_itr(), chunk, skip_remainder_batch=skip_remainder)
        seen = []
        while updates.has_next():
            seen += next(updates)
        rest = _whole_epoch()[done:whole]
        assert seen == (rest[: len(rest) // chunk * chunk] if skip_remainder else rest)
        assert iterator.end_of_epoch()


def test_checkpoints_without_the_length_are_read_as_ever() -> None:
    state = _stopped_after(5, shards=2)
    del state["batches_in_epoch"], state["processes"]
    assert len(_rest(state)) == 25


def test_iterators_over_groups_of_batches_are_left_to_fairseq() -> None:
    def grouped(shards: int) -> GroupedEpochBatchIterator:
        batches = [[[number] for number in range(60)], [[number] for number in range(60, 120)]]
        return GroupedEpochBatchIterator(_Numbers(), list, batches, seed=1, num_shards=shards, num_workers=0)

    iterator = grouped(2)
    epoch = iterator.next_epoch_itr()
    for _ in range(20):
        next(epoch)
    state = iterator.state_dict()
    other = grouped(1)
    other.load_state_dict(state)
    assert other.next_epoch_itr().n == state["iterations_in_epoch"] == 20
