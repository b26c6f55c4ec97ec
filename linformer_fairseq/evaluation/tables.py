"""Predictions to files: a table for people, and the file that GLUE's server takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.evaluation.predictions import Predictions


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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines("\t".join(row) + "\n" for row in (header, *rows))
        temporary.replace(path)
    except OSError as error:  # that of a full disk names no file, others the temporary one
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
