"""Soft labels of a task with two classes: what bags of words predict for the training examples.

    python -m scripts.reproduce_tools.teacher imdb --from aclImdb_v1.tar.gz --out teacher.tsv
    linformer data task imdb --from aclImdb_v1.tar.gz --soft-labels teacher.tsv ...

The probability of an example is that of two bags of words (`bags`) fitted on the other four fifths of the training
examples: fitted on all of them, they would repeat the labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from linformer_fairseq.files.atomic import atomic_open, check_output
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.files.tsv import tsv_line
from scripts.reproduce_tools.bags import Bags, Probabilities

FOLDS = 5
Classes = npt.NDArray[np.bool_]
"""Whether an example is of the second class, (examples,)."""


def teach(texts: Sequence[str], classes: Classes) -> Probabilities:
    """Probabilities of the second class, each of classifiers that were not fitted on the example.

    Raises:
        ValueError: no word is in several of the texts.
    """
    bags, second = Bags(texts), classes.astype(np.float64)
    found = np.zeros(len(texts))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(texts, classes)
    with Progress("teaching", FOLDS, items="folds") as progress:
        for fitted, others in folds:
            found[others] = bags.judge(fitted, second[fitted], others)
            progress.advance(1)
    return found


def write(task: Task, paths: Sequence[str], out: Path) -> float:
    """Write the table of a task's training examples.

    Returns:
        the percentage of them that are given the right class.

    Raises:
        UserError: the files are missing or damaged, the task has pairs of texts or not two classes, or its texts are
            too few.
    """
    labels, rows = training_examples(task, paths)
    classes = np.array([row.label == labels[1] for row in rows])
    if min(classes.sum(), (~classes).sum()) < FOLDS:
        raise UserError(f"{', '.join(paths)}: expected {FOLDS} training examples of each class or more")
    try:
        second = teach([row.texts[0] for row in rows], classes)
    except ValueError as error:
        raise UserError(f"{', '.join(paths)}: too few texts for a bag of words ({error})") from None
    write_table(out, labels, rows, second)
    return float(100 * ((second > 0.5) == classes).mean())


def training_examples(task: Task, paths: Sequence[str]) -> tuple[list[str], list[Row]]:
    """The two classes and the training examples of a task's files.

    Raises:
        UserError: the files are missing or damaged, or the task has pairs of texts or not two classes.
    """
    source = open_source(task, paths, "strict")
    labels = list(source.labels)
    if len(labels) != 2 or len(task.texts) != 1:
        raise UserError(f"{task.name}: expected a task of single texts and two classes, found {', '.join(labels[:5])}")
    return labels, [row for row in source.rows() if isinstance(row, Row) and row.split == "train"]


def write_table(out: Path, labels: Sequence[str], rows: Sequence[Row], second: Probabilities) -> None:
    """Write probabilities of the second class as a table for `linformer data task --soft-labels`."""
    with atomic_open(out) as stream:
        stream.write(tsv_line(("id", *labels)) + "\n")
        for row, probability in zip(rows, second, strict=True):
            stream.write(tsv_line((row.identifier, f"{1 - probability:.6f}", f"{probability:.6f}")) + "\n")


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser: argparse.ArgumentParser = program_parser(None, "scripts.reproduce_tools.teacher", __doc__)
    parser.add_argument("task", choices=list(TASKS), help="name of the task")
    parser.add_argument("--from", dest="source", nargs="+", required=True, help="files, as for `linformer data task`")
    parser.add_argument("--out", type=Path, required=True, help="table for --soft-labels")
    args = parser.parse_args(argv)
    check_output("--out", args.out, *map(Path, args.source))
    right = write(TASKS[args.task], args.source, args.out)
    print(f"{args.out}: {right:.1f} % of the training examples are given the right class by the others")


if __name__ == "__main__":
    run_program(main)
