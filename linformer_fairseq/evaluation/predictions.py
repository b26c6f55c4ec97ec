"""Predictions for every example of a split, in the order of the file: inference, scores, and output files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from linformer_fairseq.evaluation.classifier import Classifier
from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.files.tsv import tsv_line

Classes = npt.NDArray[np.int64]
"""Class numbers, (examples,)."""


@dataclass(frozen=True)
class Predictions:
    """Predictions, with one entry for each example."""

    probabilities: npt.NDArray[np.float32]
    """Probabilities that the model gives to the classes, (examples, classes)."""
    targets: Classes | None
    """None if the split has no labels."""

    @cached_property
    def predicted(self) -> Classes:
        """The most probable class of each example."""
        return self.probabilities.argmax(axis=1)


def predict(classifier: Classifier, split: str, batch_size: int) -> Predictions:
    """Classify a split, read as in training with fairseq; prints the progress to stderr.

    Args:
        classifier: see `load_classifier`.
        split: name of an existing split.
        batch_size: examples per batch, which have similar lengths. The result does not depend on it.

    Raises:
        UserError: an example is longer than the model's maximum.
    """
    dataset = classifier.task.load_dataset(split)
    sizes = np.asarray(dataset.sizes[0])
    total = len(sizes)
    too_long = int((sizes > classifier.max_positions).sum())
    if too_long:
        limit = classifier.max_positions
        raise UserError(
            f"{too_long:,} of {total:,} examples of {split} are longer than the {limit} positions of the model (the "
            f"longest: {sizes.max():,}); prepare the task with --max-positions {limit}"
        )
    heads: Any = classifier.model.classification_heads
    probabilities = np.zeros((total, heads[classifier.head].out_proj.out_features), dtype=np.float32)
    targets: Classes | None = None
    with Progress(f"evaluating {split}", total, items="examples") as progress:
        for rows in _batches(sizes, batch_size):
            batch = dataset.collater([dataset[row] for row in rows])
            with torch.inference_mode():
                inputs = {key: value.to(classifier.device) for key, value in batch["net_input"].items()}
                logits, _ = classifier.model(**inputs, features_only=True, classification_head_name=classifier.head)
                probabilities[rows] = logits.softmax(dim=-1, dtype=torch.float32).cpu().numpy()
            if "target" in batch:
                targets = np.zeros(total, dtype=np.int64) if targets is None else targets
                targets[rows] = batch["target"].view(-1).numpy()
            progress.advance(len(rows))
    return Predictions(probabilities, targets)


def of_texts(identifiers: list[str], found: Predictions) -> tuple[list[str], Predictions]:
    """The predictions of whole texts: the mean of the probabilities of the windows that have one identifier.

    Args:
        identifiers: of the examples; windows of one text follow each other.
        found: the predictions of the examples.

    Returns:
        the identifiers of the texts, and their predictions.
    """
    names = np.array(identifiers)
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    windows = np.diff(np.append(first, len(names)))
    probabilities = (np.add.reduceat(found.probabilities, first) / windows[:, None]).astype(np.float32)
    targets = None if found.targets is None else found.targets[first]
    return [identifiers[row] for row in first], Predictions(probabilities, targets)


def _batches(sizes: npt.NDArray[np.generic], batch_size: int) -> Iterator[list[int]]:
    """Rows of similar length, the longest first, so that a lack of memory is noticed at once."""
    order = np.argsort(-sizes.astype(np.int64), kind="stable").tolist()
    yield from (order[start : start + batch_size] for start in range(0, len(order), batch_size))


def accuracy(predicted: Classes, targets: Classes) -> float:
    """Percentage of correct predictions."""
    return 100.0 * float((predicted == targets).mean())


def f1(predicted: Classes, targets: Classes, positive: int) -> float:
    """Harmonic mean of precision and recall of one class, in percent; 0 without true positives."""
    hits = int(((predicted == positive) & (targets == positive)).sum())
    total = int((predicted == positive).sum()) + int((targets == positive).sum())
    return 200.0 * hits / total if total else 0.0


def majority(targets: Classes) -> tuple[int, float]:
    """The most frequent class, and the accuracy in percent of always predicting it."""
    counts = np.bincount(targets)
    return int(counts.argmax()), 100.0 * float(counts.max()) / len(targets)


def write_predictions(
    path: Path, identifiers: list[str], labels: tuple[str, ...], found: Predictions, scores: bool
) -> None:
    """Write id, prediction, label (empty if not known) and the prediction's probability of each example.

    Args:
        path: the file.
        identifiers: of the examples.
        labels: the names of the classes.
        found: the predictions.
        scores: also write the probabilities of all classes.
    """
    targets = found.targets
    _write(
        path,
        ("id", "prediction", "label", "probability", *(labels if scores else ())),
        (
            (
                name,
                labels[found.predicted[row]],
                labels[targets[row]] if targets is not None else "",
                f"{probabilities.max():.4f}",
                *(f"{one:.6f}" for one in probabilities if scores),
            )
            for row, (name, probabilities) in enumerate(zip(identifiers, found.probabilities, strict=True))
        ),
    )


def write_submission(path: Path, identifiers: list[str], labels: tuple[str, ...], found: Predictions) -> None:
    """Write GLUE's submission file: index and the name of the predicted label."""
    rows = zip(identifiers, found.predicted, strict=True)
    _write(path, ("index", "prediction"), ((name, labels[label]) for name, label in rows))


def _write(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Write a table atomically.

    Raises:
        OSError: it cannot be written; the error's file is ``path``.
    """
    with atomic_open(path) as stream:
        stream.writelines(tsv_line(row) + "\n" for row in (header, *rows))
