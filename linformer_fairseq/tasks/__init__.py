"""Additional fairseq tasks; importing this package registers them."""

from linformer_fairseq import registration  # noqa: F401  must precede all uses of fairseq

from .bucketed_sentence_prediction import BucketedSentencePredictionConfig, BucketedSentencePredictionTask

SENTENCE_PREDICTION = ("sentence_prediction", "bucketed_sentence_prediction")
"""Tasks for classification and regression of sentences and pairs, fairseq's and ours; both read the same data."""

__all__ = ["SENTENCE_PREDICTION", "BucketedSentencePredictionConfig", "BucketedSentencePredictionTask"]
