"""fairseq's sentence_prediction with batches of examples of similar length.

What fairseq's does: it draws the examples of a batch by chance and pads all to the longest. Where lengths differ much,
that is most of the work. What it reads, its options and its checkpoints' models are the same here.

No ``from __future__ import annotations`` here: fairseq reads the field types as objects.
"""

from dataclasses import dataclass, field
from typing import Any

from fairseq.data import FairseqDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from .length_windows import LengthWindows


@dataclass
class BucketedSentencePredictionConfig(SentencePredictionConfig):
    """Options of ``bucketed_sentence_prediction``: those of ``sentence_prediction`` and one more."""

    length_window: int = field(
        default=2048,
        metadata={
            "help": "shuffled examples that are ordered by length at a time before they are cut into batches: more of "
            "them make less padding, fewer make batches that differ more by chance; 0: batches as those of "
            "sentence_prediction, padding and all"
        },
    )


@register_task("bucketed_sentence_prediction", dataclass=BucketedSentencePredictionConfig)
class BucketedSentencePredictionTask(SentencePredictionTask):
    """Classification or regression of sentences and pairs, in batches of similar length."""

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "BucketedSentencePredictionTask":
        """Make the task from its options.

        Raises:
            ValueError: no such window.
        """
        if cfg.length_window < 0:
            raise ValueError(f"length_window={cfg.length_window}: expected a number of examples, or 0 for no ordering")
        return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Load a split, see `LengthWindows`."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if self.cfg.length_window:
            lengths = dataset.sizes[0]
            dataset = LengthWindows(dataset, lengths, self.cfg.length_window, shuffle=not self.cfg.no_shuffle)
            self.datasets[split] = dataset
        return dataset
