"""Random batches of examples of similar length, to reduce padding."""

from typing import Any

import numpy as np
import numpy.typing as npt
from fairseq.data import BaseWrapperDataset, FairseqDataset

Indices = npt.NDArray[np.int64]

# Also for a small data set: with a single window, its batches would be nearly the same in every epoch.
_LEAST_WINDOWS = 4


def by_length(indices: Indices, lengths: npt.NDArray[Any], window: int) -> Indices:
    """Sort examples by length within windows; examples of the same length keep their order.

    Windows are sorted alternately in ascending and descending order, so that a batch across two of them has similar
    lengths, too.

    Args:
        indices: the examples, in random order, (examples,).
        lengths: tokens of each example of the data set.
        window: maximum number of examples that are sorted together.

    Returns:
        the examples in their new order, (examples,).
    """
    count = len(indices)
    windows = max(-(-count // window), _LEAST_WINDOWS)
    number = np.arange(count) * windows // max(count, 1)
    length = np.asarray(lengths)[indices].astype(np.int64)
    return indices[np.lexsort((np.where(number % 2, -length, length), number))]


class LengthWindows(BaseWrapperDataset):
    """A data set with batches of similar length, which differ between epochs.

    The examples are shuffled, sorted by length within large windows, and cut into batches, whose order fairseq then
    shuffles. In the first epoch and in validation (always epoch 1 to fairseq), the order is the wrapped data set's own;
    in later epochs it is a permutation of it. Everything is determined by the seed and the epoch, so that all processes
    and resumed runs get the same batches.
    """

    def __init__(self, dataset: FairseqDataset, lengths: npt.NDArray[Any], window: int, shuffle: bool) -> None:
        """Wrap a data set.

        Args:
            dataset: the data set to wrap; its ``ordered_indices`` are shuffled.
            lengths: tokens of each example.
            window: see `by_length`.
            shuffle: whether epochs after the first have different orders.
        """
        super().__init__(dataset)
        self._lengths, self._window, self._shuffle = lengths, window, shuffle
        self._epoch = 1

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether the batches are the same in all epochs; otherwise fairseq makes them for each epoch."""
        return not self._shuffle and super().can_reuse_epoch_itr_across_epochs

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next batches, from 1."""
        super().set_epoch(epoch)
        self._epoch = epoch

    def ordered_indices(self) -> Indices:
        """All examples, shuffled; fairseq has seeded numpy with its seed and the epoch."""
        order = self.dataset.ordered_indices()
        return np.random.permutation(order) if self._shuffle and self._epoch > 1 else order

    def batch_by_size(
        self,
        indices: Indices,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[Indices]:
        """Cut the examples into batches, as fairseq's data sets do, after sorting them by length.

        With a required multiple, fairseq drops the last examples. They are not sorted, so that the dropped examples are
        random and not those of one length.
        """
        kept = len(indices) - len(indices) % required_batch_size_multiple
        ordered = by_length(indices[:kept], self._lengths, self._window)
        return super().batch_by_size(
            np.concatenate([ordered, indices[kept:]]), max_tokens, max_sentences, required_batch_size_multiple
        )
