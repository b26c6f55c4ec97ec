"""Batches of examples of similar length, so that little of them is padding, and still drawn by chance."""

from typing import Any

import numpy as np
import numpy.typing as npt
from fairseq.data import BaseWrapperDataset, FairseqDataset

Indices = npt.NDArray[np.int64]

# A small data set has as many, too; with one, its batches would be nearly the same in every epoch.
_LEAST_WINDOWS = 4


def by_length(indices: Indices, lengths: npt.NDArray[Any], window: int) -> Indices:
    """Order examples by length within windows; those of the same length keep their order.

    Windows go up and down in turn, so that a batch across two of them has similar lengths as well.

    Args:
        indices: the examples, in random order, (examples,).
        lengths: tokens of each example of the data set.
        window: examples that are ordered at a time, at most.

    Returns:
        the same examples, (examples,).
    """
    count = len(indices)
    windows = max(-(-count // window), _LEAST_WINDOWS)
    number = np.arange(count) * windows // max(count, 1)
    length = np.asarray(lengths)[indices].astype(np.int64)
    return indices[np.lexsort((np.where(number % 2, -length, length), number))]


class LengthWindows(BaseWrapperDataset):
    """A data set that fairseq cuts into batches of similar length, and into other ones in every epoch.

    The examples are shuffled as the data set does it (in the first epoch, and in validation, which is always the first
    to fairseq) or anew (in later ones), ordered by length within large windows, and cut. fairseq then shuffles the
    batches. All of it follows from the seed and the epoch, so that every process and every resumed run has the same.
    """

    def __init__(self, dataset: FairseqDataset, lengths: npt.NDArray[Any], window: int, shuffle: bool) -> None:
        """Wrap a data set.

        Args:
            dataset: anything with an order of its own.
            lengths: tokens of each example.
            window: see `by_length`.
            shuffle: whether epochs after the first have an order of their own.
        """
        super().__init__(dataset)
        self._lengths, self._window, self._shuffle = lengths, window, shuffle
        self._epoch = 1

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether the batches stay the same; if not, fairseq makes them for each epoch."""
        return not self._shuffle and super().can_reuse_epoch_itr_across_epochs

    def set_epoch(self, epoch: int) -> None:
        """Take the epoch whose batches are wanted next, from 1."""
        super().set_epoch(epoch)
        self._epoch = epoch

    def ordered_indices(self) -> Indices:
        """Every example once, shuffled; fairseq has seeded numpy with its seed and the epoch."""
        order = self.dataset.ordered_indices()
        return np.random.permutation(order) if self._shuffle and self._epoch > 1 else order

    def batch_by_size(
        self,
        indices: Indices,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[Indices]:
        """Cut the examples into batches, as fairseq's other data sets do, but after ordering them by length.

        With a required multiple fairseq leaves out the last few. Those stay what they were before: drawn by chance, not
        for their length.
        """
        kept = len(indices) - len(indices) % required_batch_size_multiple
        ordered = by_length(indices[:kept], self._lengths, self._window)
        return super().batch_by_size(
            np.concatenate([ordered, indices[kept:]]), max_tokens, max_sentences, required_batch_size_multiple
        )
