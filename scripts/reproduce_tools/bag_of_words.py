"""Accuracy of a bag of words on a task: the control that a pretrained model has to beat.

    python -m scripts.reproduce_tools.bag_of_words sst2 --from GLUE/SST-2 --out sst2.json
    python -m scripts.reproduce_tools.bag_of_words tsv --from authors/train.tsv authors/valid.tsv --out authors.json
    python -m scripts.reproduce_tools.bag_of_words imdb --from aclImdb.tar.xz --data work/imdb --out imdb.json

The model is logistic regression (scikit-learn) on tf-idf of words and bigrams, separately for each text of an example,
fitted on all of train and scored on valid. Texts are not truncated. With --data, a second bag of words is fitted and
scored on the texts of that folder, which are truncated for a model. The last control always predicts the most frequent
label of train.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.cuts import WINDOWS
from linformer_fairseq.files.dictionary import FIRST
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.mmap_dataset import open_dataset
from linformer_fairseq.files.task_data import read_task

SPLITS = ("train", "valid")
PENALTY = 8.0
"""C of the regression (inverse of the regularization strength), for every task."""
WORD = r"(?u)\b\w+\b"
"""A word. scikit-learn's own pattern leaves out words of one letter, such as "I", and the "t" of "don't"."""


class Examples(NamedTuple):
    """The labelled examples of a split."""

    texts: list[tuple[str, ...]]
    labels: list[str]


class Truncated(NamedTuple):
    """The examples of a data folder."""

    splits: dict[str, Examples]
    positions: int
    """The most tokens of an example, of which a few are special ones."""


def scores(task: Task, paths: list[Path], data: Path | None = None) -> dict[str, Any]:
    """Accuracies in percent on valid.

    Args:
        task: the task.
        paths: its files.
        data: the task's data folder, whose texts are truncated for a model (optional).

    Raises:
        UserError: files are missing or damaged, a split has no labelled examples, or ``data`` has other labels.
    """
    truncated = read_data(data, len(task.texts)) if data else None
    whole = {split: Examples([], []) for split in SPLITS}
    for row in open_source(task, [str(path) for path in paths], "strict").rows():
        if isinstance(row, Row) and row.split in whole and row.label is not None:
            whole[row.split].texts.append(row.texts)
            whole[row.split].labels.append(row.label)
    counts = {split: Counter(whole[split].labels) for split in SPLITS}
    for split in SPLITS:
        if not counts[split]:
            raise UserError(f"{', '.join(map(str, paths))}: no labelled examples of {split}")
        if truncated and Counter(truncated.splits[split].labels) != counts[split]:
            raise UserError(f"--data {data}: {split} has other labels than {split} of --from; prepare the task again")
    started = time.perf_counter()
    majority = counts["train"].most_common(1)[0][0]
    found: dict[str, Any] = {
        **{split: counts[split].total() for split in SPLITS},
        "bag_of_words": accuracy(whole),
        "majority": 100 * counts["valid"][majority] / counts["valid"].total(),
        "seconds": time.perf_counter() - started,
    }
    if truncated:
        found["truncated"] = {"positions": truncated.positions, "bag_of_words": accuracy(truncated.splits)}
    return found


def accuracy(examples: Mapping[str, Examples]) -> float:
    """Percent of the examples of valid that a bag of words fitted on train has right."""
    features: dict[str, list[Any]] = {split: [] for split in SPLITS}
    for number in range(len(examples["train"].texts[0])):
        words = TfidfVectorizer(token_pattern=WORD, ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        features["train"].append(words.fit_transform([texts[number] for texts in examples["train"].texts]))
        features["valid"].append(words.transform([texts[number] for texts in examples["valid"].texts]))
    fitted = LogisticRegression(C=PENALTY, max_iter=2000)
    fitted.fit(sparse.hstack(features["train"]).tocsr(), examples["train"].labels)
    return float(100 * fitted.score(sparse.hstack(features["valid"]).tocsr(), examples["valid"].labels))


def read_data(folder: Path, inputs: int) -> Truncated:
    """The examples of a data folder of `linformer data task`, as text.

    Args:
        folder: the data folder.
        inputs: number of texts of an example.

    Raises:
        UserError: it is no such folder, its texts are not truncated, its examples have no classes or another number of
            texts, or a file is damaged.
    """
    data = read_task(folder)
    options = data.manifest.get("options", {})
    positions = options.get("max_positions")
    if positions is None or options.get("cut") == WINDOWS:
        raise UserError(
            f"--data {folder}: its texts are not truncated; expected a folder made with --max-positions and without "
            f"--cut {WINDOWS}"
        )
    tokenizer = load_tokenizer(folder)
    found = sum(1 for _ in folder.glob("input[01]"))
    if found != inputs:
        raise UserError(f"--data {folder}: its examples have {found} texts each, those of the task {inputs}")
    splits = {}
    for split in SPLITS:
        data.require(split)
        if not data.has_labels(split):
            raise UserError(f"--data {folder}: no classes for {split}")
        columns = []
        for number in range(inputs):
            texts = open_dataset(folder / f"input{number}" / split)
            columns.append([tokenizer.decode(texts.item(row)) for row in range(texts.items)])
        labels = open_dataset(folder / "label" / split)
        classes = [data.labels[labels.item(row)[0] - FIRST] for row in range(labels.items)]
        splits[split] = Examples(list(zip(*columns, strict=True)), classes)
    return Truncated(splits, positions)


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.bag_of_words", __doc__)
    parser.add_argument("task", choices=list(TASKS), help="name of the task")
    parser.add_argument(
        "--from", dest="source", type=Path, nargs="+", required=True, help="files, as for `linformer data task`"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file; its name is the task's in the tables")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="data folder of the task: also the accuracy on its truncated texts"
    )
    args = parser.parse_args(argv)
    found = {"task": args.out.stem, **scores(TASKS[args.task], args.source, args.data)}
    write_json(args.out, found)
    truncated = ""
    if args.data:
        of = found["truncated"]
        truncated = f" ({of['bag_of_words']:.1f} % of texts of at most {of['positions']} tokens)"
    print(
        f"{found['task']}: bag of words {found['bag_of_words']:.1f} %{truncated}, "
        f"most frequent answer {found['majority']:.1f} %"
    )


if __name__ == "__main__":
    run_program(main)
