"""fairseq's sentence_prediction with batches of examples of similar length.

fairseq's task batches examples at random and pads them to the longest. If lengths differ much, most of the computation
is on padding. Data format, options and models are the same as in fairseq's task.

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
    """Options of ``bucketed_sentence_prediction``: those of ``sentence_prediction``, and ``length_window``."""

    length_window: int = field(
        default=2048,
        metadata={
            "help": "number of shuffled examples that are sorted by length at a time before batching: larger windows "
            "give less padding, smaller windows more random batches; 0: random batches, as in sentence_prediction"
        },
    )


@register_task("bucketed_sentence_prediction", dataclass=BucketedSentencePredictionConfig)
class BucketedSentencePredictionTask(SentencePredictionTask):
    """Classification or regression of sentences and pairs, in batches of similar length."""

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "BucketedSentencePredictionTask":
        """Make the task from its options.

        Raises:
            ValueError: ``length_window`` is negative.
        """
        if cfg.length_window < 0:
            raise ValueError(f"length_window={cfg.length_window}: expected a number of examples, or 0 for no ordering")
        return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Load a split as `LengthWindows`, or as fairseq does if ``length_window`` is 0."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if self.cfg.length_window:
            lengths = dataset.sizes[0]
            dataset = LengthWindows(dataset, lengths, self.cfg.length_window, shuffle=not self.cfg.no_shuffle)
            self.datasets[split] = dataset
        return dataset
