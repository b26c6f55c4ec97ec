"""`linformer evaluate`: evaluates a finetuned checkpoint on a prepared task."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from linformer_fairseq.checkpoints.released_folder import existing_weights, files_read
from linformer_fairseq.cli.devices import device_of
from linformer_fairseq.evaluation import (
    Predictions,
    accuracy,
    f1,
    load_classifier,
    majority,
    of_texts,
    predict,
    read_finetuned,
    write_predictions,
    write_submission,
)
from linformer_fairseq.files import dictionary, provenance
from linformer_fairseq.files.atomic import check_output
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.evaluation_record import SCHEMA, EvaluationRecord, write_evaluation
from linformer_fairseq.files.names import last_name
from linformer_fairseq.files.shipped import shipped_models
from linformer_fairseq.files.task_data import TaskData, read_task


def run(arguments: argparse.Namespace) -> int:
    """Print the scores and write the requested files; returns the exit status."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    # GLUE's server expects predictions for the test set and cannot detect those of another split.
    split = arguments.split or ("test" if arguments.submission else "valid")
    try:
        if arguments.scores and not arguments.out:
            raise UserError("--scores: adds columns to the table of --out; give that, too")
        _refuse_pretraining(arguments.data, arguments.checkpoint)
        data = read_task(arguments.data)
        data.require(split)
        submission = _submission_path(arguments.submission, data)
        outputs = {"--out": arguments.out, "--submission": submission, "--results": arguments.results}
        weights = existing_weights(arguments.checkpoint)
        _check_outputs(outputs, [*files_read(arguments.checkpoint), *data.files])
        if arguments.results and not data.has_labels(split):
            raise UserError(f"--results {arguments.results}: {split} of {data.folder} has no labels: no score")
        identifiers = data.identifiers(split)
        device = device_of(arguments.device, arguments.bf16)
        finetuned = read_finetuned(weights)
        classifier = load_classifier(finetuned, data, device, arguments.bf16, arguments.compile_encoder)
        found = predict(classifier, split, arguments.batch_size)
        examples = len(found.predicted)
        identifiers, found = of_texts(identifiers, found)
        scores = score(data, found)
        if arguments.out:
            write_predictions(arguments.out, identifiers, data.labels, found, arguments.scores)
        for line in report(split, data, examples, found, scores):
            print(line)
        if submission:
            write_submission(submission, identifiers, data.labels, found)
            if lost := data.rejected(split):
                print(f"warning: {submission} lacks {lost:,} rows, see {data.folder / 'rejected.tsv'}", file=sys.stderr)
        if arguments.results:
            record = _record(arguments, finetuned.path, device, data, split, found, scores)
            write_evaluation(arguments.results, record)
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    return 0


def score(data: TaskData, found: Predictions) -> dict[str, float]:
    """The scores in percent, by name: ``accuracy``, and ``f1`` of a task that has one; none without labels."""
    if found.targets is None:
        return {}
    scores = {"accuracy": accuracy(found.predicted, found.targets)}
    if data.positive is not None:
        scores["f1"] = f1(found.predicted, found.targets, data.positive)
    return scores


def report(split: str, data: TaskData, examples: int, found: Predictions, scores: Mapping[str, float]) -> list[str]:
    """The scores as lines of text, with the score of the majority class for comparison.

    Args:
        split: its name.
        data: the task.
        examples: the number of examples, which is larger than that of predictions if texts are divided into windows.
        found: the predictions.
        scores: from `score`.
    """
    count = len(found.predicted)
    windows = f" in {examples:,} windows" if examples > count else ""
    if found.targets is None:
        return [f"{split}: {count:,} examples{windows} without labels: no score"]
    right = int((found.predicted == found.targets).sum())
    most, share = majority(found.targets)
    lines = [
        f"{split}: {count:,} examples{windows}",
        f"accuracy {scores['accuracy']:.2f} % ({right:,} right; always {data.labels[most]}: {share:.2f} %)",
    ]
    if data.positive is not None:
        lines.append(f"F1 of {data.labels[data.positive]} {scores['f1']:.2f} %")
    return lines


def _record(
    arguments: argparse.Namespace,
    checkpoint: Path,
    device: torch.device,
    data: TaskData,
    split: str,
    found: Predictions,
    scores: dict[str, float],
) -> EvaluationRecord:
    assert found.targets is not None  # see `run`
    source = data.manifest.get("source")
    if not isinstance(source, dict):  # a file that somebody changed
        source = {}
    flags = {"--bf16": arguments.bf16, "--compile-encoder": arguments.compile_encoder}
    options = ["--split", split, "--device", str(device), *(flag for flag, given in flags.items() if given)]
    model = arguments.checkpoint
    if model not in shipped_models():
        model = last_name(Path(model))
    folder = last_name(data.folder)
    gpu = f", {torch.cuda.get_device_name(device)}" if device.type == "cuda" else ""
    return EvaluationRecord(
        schema=SCHEMA,
        sha256=provenance.sha256(checkpoint),
        task=str(data.manifest.get("task", folder)),
        source={key: str(source[key]) for key in ("kind", "repository", "config", "revision") if source.get(key)},
        split=split,
        examples=len(found.predicted),
        scores=scores,
        majority=majority(found.targets)[1],
        command=shlex.join(["linformer", "evaluate", model, folder, *options]),
        precision="bf16" if arguments.bf16 else "fp32",
        commit=provenance.commit(Path(__file__).resolve().parents[2]),
        machine=f"{provenance.machine()}{gpu}",
        date=provenance.date(),
        versions=provenance.versions(),
    )


def _refuse_pretraining(folder: Path, checkpoint: str) -> None:
    """Raise for a folder of `linformer data binarize`, which is no task's."""
    if (folder / dictionary.NAME).is_file() and not (folder / "input0").exists():
        shard = folder / "0"  # each has the other splits, too
        data = shard if (shard / dictionary.NAME).is_file() else folder
        command = shlex.join(["fairseq-validate", str(data), "--path", str(existing_weights(checkpoint))])
        raise UserError(
            f"{folder}: has the text of a pretraining; expected a task's folder, the --out of linformer data task. The "
            f'perplexity of a pretrained model is measured by: {command} --user-dir "$(linformer user-dir)" --task '
            "masked_lm --criterion masked_lm --batch-size 32 --required-batch-size-multiple 1 --tokens-per-sample N, "
            "with the N of the training"
        )


def _check_outputs(given: Mapping[str, Path | None], inputs: Sequence[Path]) -> None:
    """Refuse files, by option, that cannot be written, of which two are one, or of which one is an input."""
    options: dict[Path, str] = {}
    for option, path in given.items():
        if path is None:
            continue
        check_output(option, path, *inputs)
        other = options.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(f"{option} {path}: is the file of {other}, too, which would be lost; choose another name")


def _submission_path(path: Path | None, data: TaskData) -> Path | None:
    if path is None:
        return None
    if data.submission is None:
        raise UserError(f"--submission {path}: {data.folder} holds none of GLUE's tasks; --out writes predictions")
    return path / data.submission if path.is_dir() else path
