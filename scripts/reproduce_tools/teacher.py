"""Soft labels of a task with two classes: what bags of words predict for the training examples.

    python -m scripts.reproduce_tools.teacher imdb --from aclImdb_v1.tar.gz --out teacher.tsv
    linformer data task imdb --from aclImdb_v1.tar.gz --soft-labels teacher.tsv ...

Two classifiers are averaged, logistic regression (scikit-learn) on tf-idf of one to three words, and on which of them
are in the text, weighted by naive Bayes (Wang and Manning 2012, "Baselines and Bigrams"). The probability of an example
is that of classifiers fitted on the other four fifths of the training examples: fitted on all of them, they would
repeat the labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from linformer_fairseq.files.atomic import atomic_open, check_output
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.files.tsv import tsv_line

FOLDS = 5
WORD = r"(?u)\b\w[\w']*\b|[!?]"
"""A word, an exclamation mark or a question mark."""
Probabilities = npt.NDArray[np.float64]
"""Of the second class, (examples,)."""
Classes = npt.NDArray[np.bool_]
"""Whether an example is of the second class, (examples,)."""


def teach(texts: Sequence[str], classes: Classes) -> Probabilities:
    """Probabilities of the second class, each of classifiers that were not fitted on the example."""
    words = {"token_pattern": WORD, "ngram_range": (1, 3), "dtype": np.float32}
    present = CountVectorizer(**words, min_df=2, binary=True).fit_transform(texts)
    weighted = TfidfVectorizer(**words, min_df=3, sublinear_tf=True).fit_transform(texts)
    kinds: list[tuple[float, Callable[[npt.NDArray[np.int64]], Any]]] = [
        (16.0, lambda fitted: normalize(present.multiply(_ratio(present[fitted], classes[fitted])).tocsr())),
        (32.0, lambda fitted: weighted),
    ]
    found = np.zeros((len(kinds), len(texts)))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(texts, classes)
    with Progress("teaching", FOLDS, items="folds") as progress:
        for fitted, others in folds:
            for number, (penalty, features) in enumerate(kinds):
                x = features(fitted)
                # dual: the fastest for so many features; it visits the examples in random order
                model = LogisticRegression(C=penalty, solver="liblinear", dual=True, max_iter=200, random_state=0)
                model.fit(x[fitted], classes[fitted])
                found[number, others] = model.predict_proba(x[others])[:, 1]
            progress.advance(1)
    mean: Probabilities = found.mean(axis=0)
    return mean


def _ratio(present: Any, classes: Classes) -> npt.NDArray[np.float32]:
    """The logarithm of how much more probable each word is in the second class, with one more text that has all."""
    second, first = (np.asarray(present[which].sum(axis=0)).ravel() + 1 for which in (classes, ~classes))
    ratio: npt.NDArray[np.float32] = np.log(second / second.sum() / (first / first.sum())).astype(np.float32)
    return ratio


def write(task: Task, paths: Sequence[str], out: Path) -> float:
    """Write the table of a task's training examples.

    Returns:
        the percentage of them that are given the right class.

    Raises:
        UserError: the files are missing or damaged, the task has pairs of texts or not two classes, or its texts are
            too few.
    """
    source = open_source(task, paths, "strict")
    labels = source.labels
    if len(labels) != 2 or len(task.texts) != 1:
        raise UserError(f"{task.name}: expected a task of single texts and two classes, found {', '.join(labels[:5])}")
    rows = [row for row in source.rows() if isinstance(row, Row) and row.split == "train"]
    classes = np.array([row.label == labels[1] for row in rows])
    if min(classes.sum(), (~classes).sum()) < FOLDS:
        raise UserError(f"{', '.join(paths)}: expected {FOLDS} training examples of each class or more")
    try:
        second = teach([row.texts[0] for row in rows], classes)
    except ValueError as error:
        raise UserError(f"{', '.join(paths)}: too few texts for a bag of words ({error})") from None
    with atomic_open(out) as stream:
        stream.write(tsv_line(("id", *labels)) + "\n")
        for row, probability in zip(rows, second, strict=True):
            stream.write(tsv_line((row.identifier, f"{1 - probability:.6f}", f"{probability:.6f}")) + "\n")
    return float(100 * ((second > 0.5) == classes).mean())


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
