"""Soft labels where few examples have a label: bags of words learn from these, and from each other.

    python -m scripts.reproduce_tools.few_labels imdb --from aclImdb_v1.tar.gz --labelled few.tar.gz --out teacher.tsv
    linformer data task imdb --from aclImdb_v1.tar.gz --soft-labels teacher.tsv ...

All training examples of --from get a soft label; their own labels are not used. Those whose text is in the training
set of --labelled have its label. The others are divided at random into two halves. Bags of words (`bags`) that are
fitted to the examples with labels judge both; then, three times, those that are fitted to these and to the soft labels
of one half judge the other. Where --soft-labels gives a table of another model's probabilities (`linformer evaluate
--split train --scores`), a soft label is by a third that model's.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.rows import Row
from data_prep.tasks.soft_labels import of_examples, read_soft_labels
from linformer_fairseq.files.atomic import check_output
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from scripts.reproduce_tools.bags import Bags, Probabilities
from scripts.reproduce_tools.teacher import training_examples, write_table

ROUNDS = 3
OTHER_MODEL = 1 / 3
"""What the probability that another model gives counts in a soft label."""


def teach(texts: Sequence[str], second: Probabilities, other: Probabilities | None = None) -> Probabilities:
    """Probabilities of the second class in all texts.

    Args:
        texts: of the examples.
        second: the probability of the second class where there is a label, NaN elsewhere.
        other: what another model gives; of examples with a label, it is not used.

    Raises:
        ValueError: no word is in several of the texts.
    """
    bags, found = Bags(texts), second.copy()
    labelled, others = (np.flatnonzero(which) for which in (~np.isnan(second), np.isnan(second)))
    share = 0.0 if other is None else OTHER_MODEL
    added = np.zeros(len(texts)) if other is None else share * other
    halves = np.array_split(np.random.default_rng(0).permutation(others), 2)
    with Progress("teaching", 1 + 2 * ROUNDS, items="fits") as progress:
        found[others] = (1 - share) * bags.judge(labelled, second[labelled], others) + added[others]
        progress.advance(1)
        for _ in range(ROUNDS):
            before = found.copy()
            for half, judged in zip(halves, reversed(halves), strict=True):
                fitted = np.sort(np.concatenate([labelled, half]))
                found[judged] = (1 - share) * bags.judge(fitted, before[fitted], judged) + added[judged]
                progress.advance(1)
    return found


def write(task: Task, paths: Sequence[str], labelled: Sequence[str], other: Path | None, out: Path) -> tuple[int, int]:
    """Write the table of a task's training examples.

    Args:
        task: of single texts and two classes.
        paths: files of all training examples.
        labelled: files of the examples whose labels are used.
        other: a table of another model's probabilities.
        out: the table.

    Returns:
        the number of examples with a label, and of the others.

    Raises:
        UserError: files are missing or damaged, the task has pairs of texts or not two classes, the classes of both
            differ, or there is no labelled text of a class, or none without a label.
    """
    labels, rows = training_examples(task, paths)
    classes, few = training_examples(task, labelled)
    if classes != labels:
        raise UserError(
            f"--labelled {', '.join(labelled)}: expected the classes of --from, {', '.join(labels)}, found "
            f"{', '.join(classes)}"
        )
    second = _known(rows, few, labels[1])
    known = ~np.isnan(second)
    if known.all() or not (second[known] > 0).any() or not (second[known] < 1).any():
        raise UserError(
            f"--labelled {', '.join(labelled)}: expected texts of both classes that are in --from, and not all of them;"
            f" found {known.sum():,} of the {len(rows):,} training examples of {', '.join(paths)}"
        )
    given = None
    if other is not None:
        given = of_examples(read_soft_labels(other, labels), [row.identifier for row in rows])[:, 1].astype(np.float64)
    try:
        found = teach([row.texts[0] for row in rows], second, given)
    except ValueError as error:
        raise UserError(f"{', '.join(paths)}: too few texts for a bag of words ({error})") from None
    write_table(out, labels, rows, found)
    return int(known.sum()), int((~known).sum())


def _known(rows: Sequence[Row], few: Sequence[Row], label: str) -> Probabilities:
    """The share of a label among the examples with the text of each row, NaN where there is none."""
    given: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for row in few:
        given[row.texts].append(row.label == label)
    return np.array([np.mean(given[row.texts]) if row.texts in given else np.nan for row in rows])


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser: argparse.ArgumentParser = program_parser(None, "scripts.reproduce_tools.few_labels", __doc__)
    parser.add_argument("task", choices=list(TASKS), help="name of the task")
    parser.add_argument("--from", dest="source", nargs="+", required=True, help="files, as for `linformer data task`")
    parser.add_argument("--labelled", nargs="+", required=True, help="files of the examples whose labels are used")
    parser.add_argument("--soft-labels", type=Path, help="table of another model's probabilities")
    parser.add_argument("--out", type=Path, required=True, help="table for --soft-labels of `linformer data task`")
    args = parser.parse_args(argv)
    read = [*args.source, *args.labelled, *([args.soft_labels] if args.soft_labels else [])]
    check_output("--out", args.out, *map(Path, read))
    known, others = write(TASKS[args.task], args.source, args.labelled, args.soft_labels, args.out)
    print(f"{args.out}: {known:,} training examples with a label, {others:,} with what the bags of words predict")


if __name__ == "__main__":
    run_program(main)
