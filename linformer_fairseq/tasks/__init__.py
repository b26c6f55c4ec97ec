"""An additional task and criterion of fairseq; importing this package registers them."""

from linformer_fairseq import registration  # noqa: F401  must precede all uses of fairseq

from .bucketed_sentence_prediction import BucketedSentencePredictionConfig, BucketedSentencePredictionTask
from .soft_sentence_prediction import (
    SOFT_SENTENCE_PREDICTION,
    SoftSentencePredictionConfig,
    SoftSentencePredictionCriterion,
)

SENTENCE_PREDICTION = ("sentence_prediction", "bucketed_sentence_prediction")
"""Tasks for classification and regression of sentences and pairs, fairseq's and ours; both read the same data."""

__all__ = [
    "SENTENCE_PREDICTION",
    "SOFT_SENTENCE_PREDICTION",
    "BucketedSentencePredictionConfig",
    "BucketedSentencePredictionTask",
    "SoftSentencePredictionConfig",
    "SoftSentencePredictionCriterion",
]
