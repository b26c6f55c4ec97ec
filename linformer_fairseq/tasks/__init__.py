"""Tasks beside fairseq's own; importing this registers them."""

from linformer_fairseq import registration  # noqa: F401  before anything of fairseq's is used

from .bucketed_sentence_prediction import BucketedSentencePredictionConfig, BucketedSentencePredictionTask

SENTENCE_PREDICTION = ("sentence_prediction", "bucketed_sentence_prediction")
"""Tasks that give classes or numbers to sentences and pairs: fairseq's and ours, which read the same data."""

__all__ = ["SENTENCE_PREDICTION", "BucketedSentencePredictionConfig", "BucketedSentencePredictionTask"]
