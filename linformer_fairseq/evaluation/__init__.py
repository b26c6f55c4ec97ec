"""Evaluation of a finetuned classifier on a prepared task."""

from linformer_fairseq.evaluation.classifier import Classifier, load_classifier, read_finetuned
from linformer_fairseq.evaluation.predictions import (
    Predictions,
    accuracy,
    f1,
    majority,
    of_texts,
    predict,
    write_predictions,
    write_submission,
)

__all__ = [
    "Classifier",
    "Predictions",
    "accuracy",
    "f1",
    "load_classifier",
    "majority",
    "of_texts",
    "predict",
    "read_finetuned",
    "write_predictions",
    "write_submission",
]
