"""fairseq's own masked_lm task masks every block anew in every epoch."""

from pathlib import Path

import pytest
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)

Masks = dict[int, tuple[tuple[int, ...], tuple[int, ...]]]


def _task(corpus: Path) -> MaskedLMTask:
    task = MaskedLMTask.setup_task(
        MaskedLMConfig(data=str(corpus), tokens_per_sample=32, sample_break_mode=None, seed=1)
    )
    task.load_dataset("train")
    return task


def _iterator(corpus: Path, workers: int, epoch: int = 1) -> EpochBatchIterator:
    task = _task(corpus)
    # batches of two: the last blocks of an epoch, and the first batch, are what a cache would remember
    return task.get_batch_iterator(
        task.dataset("train"), max_sentences=2, num_workers=workers, seed=1, epoch=epoch, data_buffer_size=10
    )


def _epoch(iterator: EpochBatchIterator) -> Masks:
    _ = iterator.first_batch  # the trainer fetches it before every epoch
    seen: Masks = {}
    for batch in iterator.next_epoch_itr(shuffle=False):  # so it comes first, while a cache would remember it
        rows = zip(
            batch["id"].tolist(), batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist(), strict=True
        )
        for block, tokens, target in rows:
            seen[block] = (tuple(tokens), tuple(target))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_no_block_has_the_same_masks_in_two_epochs(tiny_corpus: Path, workers: int) -> None:
    iterator = _iterator(tiny_corpus, workers)
    epochs = [_epoch(iterator) for _ in range(4)]
    blocks = set(epochs[0])
    assert len(blocks) > 40
    for i, one in enumerate(epochs):
        assert set(one) == blocks
        for other in epochs[i + 1 :]:
            assert [block for block in blocks if one[block] == other[block]] == []


def test_masks_do_not_depend_on_workers_or_on_a_resume(tiny_corpus: Path) -> None:
    iterator = _iterator(tiny_corpus, workers=0)
    first, second = _epoch(iterator), _epoch(iterator)
    with_workers = _iterator(tiny_corpus, workers=2)
    assert [_epoch(with_workers), _epoch(with_workers)] == [first, second]
    assert _epoch(_iterator(tiny_corpus, workers=1, epoch=2)) == second


def test_a_block_looked_at_last_is_masked_anew(tiny_corpus: Path) -> None:
    dataset = _task(tiny_corpus).dataset("train")
    seen = []
    for epoch in (1, 2, 3):
        dataset.set_epoch(epoch)
        seen.append(tuple(dataset[0]["net_input.src_tokens"].tolist()))
    assert len(set(seen)) == 3
