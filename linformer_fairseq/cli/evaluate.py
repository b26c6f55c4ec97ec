"""`linformer evaluate`: evaluates a finetuned checkpoint on a prepared task."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import existing_weights
from linformer_fairseq.cli.devices import device_of
from linformer_fairseq.evaluation import (
    Predictions,
    TaskData,
    accuracy,
    f1,
    load_classifier,
    majority,
    predict,
    read_finetuned,
    read_task,
    write_predictions,
    write_submission,
)
from linformer_fairseq.files.errors import UserError


def run(arguments: argparse.Namespace) -> int:
    """Print the scores and write the requested files; returns the exit status."""
    if arguments.batch_size < 1:
        raise UserError(f"--batch-size {arguments.batch_size}: expected at least 1")
    if arguments.out and Path(arguments.out).is_dir():
        raise UserError(f"--out {arguments.out}: is a folder; expected the name of a file")
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    # GLUE's server expects predictions for the test set and cannot detect those of another split.
    split = arguments.split or ("test" if arguments.submission else "valid")
    try:
        data = read_task(arguments.data)
        data.require(split)
        submission = _submission_path(arguments.submission, data)
        device = device_of(arguments.device)
        finetuned = read_finetuned(existing_weights(arguments.checkpoint))
        classifier = load_classifier(finetuned, data, device, arguments.bf16, arguments.compile_encoder)
        found = predict(classifier, split, arguments.batch_size, show_progress=True)
        identifiers = data.identifiers(split, len(found.predicted))
        for line in report(split, data, found):
            print(line)
        if arguments.out:
            write_predictions(arguments.out, identifiers, data.labels, found)
        if submission:
            write_submission(submission, identifiers, data.labels, found)
            if lost := data.rejected(split):
                print(f"warning: {submission} lacks {lost:,} rows, see {data.folder / 'rejected.tsv'}", file=sys.stderr)
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    return 0


def report(split: str, data: TaskData, found: Predictions) -> list[str]:
    """The scores as lines of text, with the score of the majority class for comparison."""
    count = len(found.predicted)
    if found.targets is None:
        return [f"{split}: {count:,} examples without labels: no score"]
    right = int((found.predicted == found.targets).sum())
    most, share = majority(found.targets)
    score = accuracy(found.predicted, found.targets)
    lines = [
        f"{split}: {count:,} examples",
        f"accuracy {score:.2f} % ({right:,} right; always {data.labels[most]}: {share:.2f} %)",
    ]
    if data.positive is not None:
        lines.append(f"F1 of {data.labels[data.positive]} {f1(found.predicted, found.targets, data.positive):.2f} %")
    return lines


def _submission_path(path: Path | None, data: TaskData) -> Path | None:
    if path is None:
        return None
    if data.submission is None:
        raise UserError(f"--submission {path}: {data.folder} holds none of GLUE's tasks; --out writes predictions")
    return path / data.submission if path.is_dir() else path
