"""Every epoch draws new masks, with any number of data workers.

What fairseq does: it draws masks from (seed, epoch, index), but

* its data workers persist between epochs (``persistent_workers``) and are not told the new epoch: with
  ``--num-workers 1``, the default, 709 of 709 blocks had the same masks in epochs 1 and 2. A resumed run starts new
  workers, so it also differs from an uninterrupted one;
* ``LRUCacheDataset``, which wraps the masked blocks, caches its last items by index alone. The last blocks read in one
  epoch (the first batch is fetched between epochs) can be returned with their old masks.

The patch: workers are restarted for each epoch, a fork of a few milliseconds, and a new epoch clears the cache. Runs
that were stopped and resumed are then bit-identical to uninterrupted ones.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.data.iterators import EpochBatchIterator
from fairseq.data.lru_cache_dataset import LRUCacheDataset


def _new_workers_each_epoch(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def initialise(self: EpochBatchIterator, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.persistent_workers = False

    return initialise


def _forget_items(set_epoch: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(set_epoch)
    def set_new_epoch(self: LRUCacheDataset, epoch: int) -> None:
        # one cache for all instances of the class: small (8 items), so clearing it costs nothing
        LRUCacheDataset.__getitem__.cache_clear()
        LRUCacheDataset.collater.cache_clear()
        set_epoch(self, epoch)

    return set_new_epoch


REPLACED = (
    (EpochBatchIterator, "__init__", _new_workers_each_epoch),
    (LRUCacheDataset, "set_epoch", _forget_items),
)
