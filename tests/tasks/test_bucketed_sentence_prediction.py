"""The batches that fairseq makes of a task by length: padding, chance, resuming, processes, validation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from fairseq import criterions, models
from fairseq.data.iterators import EpochBatchIterator
from omegaconf import OmegaConf

from linformer_fairseq.launch import compose
from linformer_fairseq.models import LinformerRobertaConfig
from tests.tasks.conftest import LONGEST, TRAIN, VALID, MakeTask, batches, padding

Iterator = Callable[..., EpochBatchIterator]


def sets(epoch: list[list[int]]) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in epoch}


@pytest.mark.slow
@pytest.mark.parametrize("size", [{"max_sentences": 32}, {"max_tokens": 1600}, {"max_sentences": 8}])
def test_little_is_padding(make_task: MakeTask, iterator: Iterator, size: dict[str, int]) -> None:
    theirs, ours = make_task("sentence_prediction"), make_task()
    for split, share in (("train", 0.35), ("valid", 0.7)):  # few examples have small windows
        before, found = (padding(iterator(task, split, **size)) for task in (theirs, ours))
        assert before > 0.3 and found < share * before
    assert padding(iterator(make_task(length_window=64), **size)) > padding(iterator(ours, **size))


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("size", [{"max_sentences": 32}, {"max_tokens": 1600}, {"max_sentences": 5, "max_tokens": 800}])
def test_every_example_comes_once_in_every_epoch(
    make_task: MakeTask, iterator: Iterator, processes: int, size: dict[str, int]
) -> None:
    for epoch in (1, 2):
        shards = [
            batches(iterator(make_task(), epoch=epoch, num_shards=processes, shard_id=shard, **size))
            for shard in range(processes)
        ]
        assert len({len(shard) for shard in shards}) == 1
        assert sorted(chain(*chain(*shards))) == list(range(TRAIN))
        assert all(len(batch) <= size.get("max_sentences", TRAIN) for shard in shards for batch in shard)


def test_the_order_follows_from_the_seed_and_the_epoch(make_task: MakeTask, iterator: Iterator) -> None:
    found = {
        (seed, epoch): batches(iterator(make_task(seed=seed), epoch=epoch)) for seed in (1, 2) for epoch in (1, 2, 3)
    }
    for (seed, epoch), expected in found.items():
        assert batches(iterator(make_task(seed=seed), epoch=epoch)) == expected
    for one in found:
        for other in found:
            assert one == other or not sets(found[one]) & sets(found[other]), "not only their order differs"


def test_batches_come_in_random_order_of_length(make_task: MakeTask, iterator: Iterator) -> None:
    longest = [batch["net_input"]["src_tokens"].shape[1] for batch in iterator(make_task()).next_epoch_itr()]
    longest = longest[:-1]
    correlation = torch.corrcoef(torch.tensor([longest[:-1], longest[1:]], dtype=torch.float))[0, 1]
    assert abs(correlation) < 0.3


@pytest.mark.slow
def test_a_resumed_epoch_goes_on_where_it_stopped(make_task: MakeTask, iterator: Iterator) -> None:
    """Through two epochs as fairseq's training loop goes, as a whole and stopped between them and in the second."""

    def epochs(task: Any, state: dict[str, Any] | None = None, stop: int | None = None) -> Any:
        seen: list[list[int]] = []
        current = iterator(task, epoch=state["epoch"] if state else 1)
        if state:
            current.load_state_dict(state)
        while current.next_epoch_idx <= 2:
            for batch in current.next_epoch_itr():
                seen.append(batch["id"].tolist())
                if len(seen) == stop:
                    return seen, copy.deepcopy(current.state_dict())
            iterator(task, "valid").next_epoch_itr(shuffle=False)  # validation between epochs changes nothing
            current = iterator(task, epoch=current.next_epoch_idx)
        return seen, None

    whole, _ = epochs(make_task())
    assert len(whole) == 2 * 94
    for stop in (94, 94 + 30):
        first, state = epochs(make_task(), stop=stop)
        second, _ = epochs(make_task(), state=state)
        assert first + second == whole


@pytest.mark.parametrize("size", [{"max_sentences": 32}, {"max_tokens": 1600}])
def test_a_required_multiple_leaves_out_in_validation_what_it_did(
    make_task: MakeTask, iterator: Iterator, size: dict[str, int]
) -> None:
    found, expected = (
        set(chain(*batches(iterator(make_task(name), "valid", required_batch_size_multiple=8, **size), False)))
        for name in ("bucketed_sentence_prediction", "sentence_prediction")
    )
    assert len(found) == VALID - VALID % 8
    if "max_sentences" in size:
        assert found == expected
    else:  # where a batch ends depends on the lengths in it
        assert len(expected) == len(found)


def test_validation_during_a_finetuning_sees_every_example(make_task: MakeTask, iterator: Iterator) -> None:
    options = compose("finetuning", ["task=sst2"]).dataset
    size = {"max_sentences": options.batch_size, "required_batch_size_multiple": options.required_batch_size_multiple}
    found = batches(iterator(make_task(), "valid", **size), False)
    assert VALID % 8 and sorted(chain(*found)) == list(range(VALID))


def test_without_a_window_it_is_fairseqs_task(make_task: MakeTask, iterator: Iterator) -> None:
    ours, theirs = make_task(length_window=0), make_task("sentence_prediction")
    for split in ("train", "valid"):
        for epoch in (1, 2):
            assert batches(iterator(ours, split, epoch)) == batches(iterator(theirs, split, epoch))


def test_without_shuffling_every_epoch_has_the_same_batches(make_task: MakeTask, iterator: Iterator) -> None:
    task = make_task(no_shuffle=True)
    first = batches(iterator(task), shuffle=False)
    assert batches(iterator(task, epoch=2), shuffle=False) == first
    assert max(first[0]) < TRAIN / 4, "the first window is the beginning of the file"


def test_validation_gives_the_same(make_task: MakeTask, iterator: Iterator) -> None:
    found = {}
    for name in ("bucketed_sentence_prediction", "sentence_prediction"):
        task = make_task(name)
        torch.manual_seed(1)
        options = LinformerRobertaConfig("linformer_roberta_tiny", projected_dim=8, max_positions=LONGEST)
        model = models.build_model(OmegaConf.structured(options), task)
        model.register_classification_head("head", num_classes=2)
        cfg = {"_name": "sentence_prediction", "classification_head_name": "head", "regression_target": False}
        criterion = criterions.build_criterion(OmegaConf.create(cfg), task)
        logged = []
        with torch.no_grad():
            for batch in iterator(task, "valid").next_epoch_itr(shuffle=False):
                logged.append(criterion(model.eval(), batch)[2])
        found[name] = [float(sum(log[key] for log in logged)) for key in ("loss", "ncorrect", "nsentences", "ntokens")]
    (loss, *counts), (expected_loss, *expected) = found.values()
    assert counts == expected and counts[1] == VALID
    assert loss == pytest.approx(expected_loss, rel=1e-5)


def test_a_negative_window_is_refused(make_task: MakeTask) -> None:
    with pytest.raises(ValueError, match=r"length_window=-1: expected a number of examples, or 0 for no ordering"):
        make_task(length_window=-1)
