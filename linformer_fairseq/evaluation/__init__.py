"""Evaluation of a finetuned classifier on a prepared task."""

from linformer_fairseq.evaluation.classifier import Classifier, load_classifier
from linformer_fairseq.evaluation.predictions import (
    Predictions,
    accuracy,
    f1,
    majority,
    predict,
    write_predictions,
    write_submission,
)
from linformer_fairseq.evaluation.task_data import TaskData, read_task

__all__ = [
    "Classifier",
    "Predictions",
    "TaskData",
    "accuracy",
    "f1",
    "load_classifier",
    "majority",
    "predict",
    "read_task",
    "write_predictions",
    "write_submission",
]
