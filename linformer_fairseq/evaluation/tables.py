"""Predictions to files: a table for people, and the file that GLUE's server takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.evaluation.predictions import Predictions
from linformer_fairseq.files.atomic import atomic_open


def write_predictions(path: Path, identifiers: list[str], labels: tuple[str, ...], found: Predictions) -> None:
    """Write id, prediction, label and the prediction's probability of each example; no label where it is not known."""
    targets = found.targets
    _write(
        path,
        ("id", "prediction", "label", "probability"),
        (
            (
                name,
                labels[found.predicted[row]],
                labels[targets[row]] if targets is not None else "",
                f"{probability:.4f}",
            )
            for row, (name, probability) in enumerate(zip(identifiers, found.probability, strict=True))
        ),
    )


def write_submission(path: Path, identifiers: list[str], labels: tuple[str, ...], found: Predictions) -> None:
    """Write GLUE's submission file: index and the name of the predicted label."""
    rows = zip(identifiers, found.predicted, strict=True)
    _write(path, ("index", "prediction"), ((name, labels[label]) for name, label in rows))


def _write(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """A table that is either whole or absent.

    Raises:
        OSError: it cannot be written; the error's file is ``path``.
    """
    with atomic_open(path) as stream:
        stream.writelines("\t".join(row) + "\n" for row in (header, *rows))
