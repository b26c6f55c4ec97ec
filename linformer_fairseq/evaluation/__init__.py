"""Evaluation of a finetuned classifier on a prepared task."""

from linformer_fairseq.evaluation.classifier import Classifier, Finetuned, load_classifier, read_finetuned
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
    "Finetuned",
    "Predictions",
    "TaskData",
    "accuracy",
    "f1",
    "load_classifier",
    "majority",
    "predict",
    "read_finetuned",
    "read_task",
    "write_predictions",
    "write_submission",
]
