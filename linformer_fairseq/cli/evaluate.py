"""Score a finetuned checkpoint on a task prepared with `python -m data_prep.prepare_task`.

Prints the accuracy, and F1 where the task asks for it; the numbers are those of fairseq's own validation. Writes
each example's prediction, and the file that GLUE's server takes for a test set.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linformer_fairseq import shipped_models
from linformer_fairseq.cli.command import CommandError

if TYPE_CHECKING:
    import torch

    from linformer_fairseq.evaluation import Predictions, TaskData


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `linformer evaluate`."""
    parser.add_argument(
        "checkpoint",
        help="checkpoint of a finetuning with --task sentence_prediction, or the name of a model that comes with the "
        "package",
    )
    parser.add_argument("data", type=Path, metavar="TASK", help="the folder that prepare_task wrote")
    parser.add_argument("--split", help="train, valid or test (default: test with --submission, otherwise valid)")
    parser.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="examples at once (default: %(default)s)"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1 ... (default: a GPU where there is one)")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument(
        "--compile-encoder", action="store_true", help="through torch.compile; pays for many thousands of examples"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="table of id, prediction, label and probability")
    parser.add_argument(
        "--submission",
        type=Path,
        metavar="FILE",
        help="GLUE's submission file, of the test split unless --split says otherwise; in a folder it gets GLUE's own "
        "name for it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, print, write the files that were asked for."""
    if arguments.batch_size < 1:
        raise CommandError(f"--batch-size {arguments.batch_size}: expected at least 1")
    try:
        import fairseq  # noqa: F401
    except ModuleNotFoundError:
        raise CommandError("fairseq is not installed; `linformer doctor` says how to get it") from None
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    from linformer_fairseq.evaluation import load_classifier, predict, read_task
    from linformer_fairseq.evaluation.tables import write_predictions, write_submission

    # GLUE's server takes predictions of the test set, and cannot tell those of another one from them.
    split = arguments.split or ("test" if arguments.submission else "valid")
    try:
        data = read_task(arguments.data)
        data.require(split)
        submission = _submission_path(arguments.submission, data)
        device = _device(arguments.device)
        checkpoint = Path(shipped_models.checkpoint(arguments.checkpoint))
        classifier = load_classifier(checkpoint, data, device, arguments.bf16, arguments.compile_encoder)
        found = predict(classifier, split, arguments.batch_size, _Progress())
        identifiers = data.identifiers(split, len(found.predicted))
        for line in report(split, data, found):
            print(line)
        if arguments.out:
            write_predictions(arguments.out, identifiers, data.labels, found)
        if submission:
            write_submission(submission, identifiers, data.labels, found)
            if lost := data.rejected(split):
                print(f"warning: {submission} lacks {lost:,} rows, see {data.folder / 'rejected.tsv'}", file=sys.stderr)
    except OSError as error:
        raise CommandError(f"{error.filename or arguments.data}: {error.strerror or error}") from None
    except ValueError as error:  # EvaluationError and CheckpointError among them
        raise CommandError(str(error)) from None
    return 0


def report(split: str, data: TaskData, found: Predictions) -> list[str]:
    """Lines with the scores, beside what always giving the most frequent answer would score."""
    from linformer_fairseq.evaluation import accuracy, f1, majority

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
        raise CommandError(f"--submission {path}: {data.folder} holds none of GLUE's tasks; --out writes predictions")
    return path / data.submission if path.is_dir() else path


def _device(name: str | None) -> torch.device:
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise CommandError(f"--device {name}: {str(error).splitlines()[0]}") from None
    return device


class _Progress:
    """Says on stderr now and then how far it is: on a terminal in place, in a log every 20 s."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        shown = self._shown > self._started
        if done < total and now - self._shown < (0.5 if self._terminal else 20):
            return
        if done == total and not shown:
            return  # it took no time
        self._shown = now
        rate = done / (now - self._started)
        line = f"{done:,} of {total:,} examples, {rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
        print(
            f"\r{line:<79}" if self._terminal else line,
            end="" if self._terminal and done < total else "\n",
            file=sys.stderr,
        )
