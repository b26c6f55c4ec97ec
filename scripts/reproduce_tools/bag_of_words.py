"""Accuracy of a bag of words on a task: the control that a pretrained model has to beat.

    python -m scripts.reproduce_tools.bag_of_words sst2 --from GLUE/SST-2 --out sst2.json
    python -m scripts.reproduce_tools.bag_of_words tsv --from authors/train.tsv authors/valid.tsv --out authors.json
    python -m scripts.reproduce_tools.bag_of_words imdb --from aclImdb.tar.xz --data work/imdb --out imdb.json

The model is logistic regression (scikit-learn) on tf-idf of words and bigrams, separately for each text of an example,
fitted on all of train and scored on valid. Texts are not truncated; with --data, a second one has them as the models
read them. The other control always predicts the most frequent label of train.
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

from data_prep.binarizing.data_folder import decoder, symbols_of
from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.mmap_dataset import open_dataset

SPLITS = ("train", "valid")
PENALTY = 8.0
"""C of the regression (inverse of the regularization strength), for every task."""


class Examples(NamedTuple):
    """The labelled examples of a split."""

    texts: list[tuple[str, ...]]
    labels: list[str]


def scores(task: Task, paths: list[Path], data: Path | None = None) -> dict[str, Any]:
    """Accuracies in percent on valid.

    Args:
        task: the task.
        paths: its files.
        data: the task's data folder, whose texts are truncated for a model (optional).

    Raises:
        UserError: the files are missing or damaged, or ``data`` has other examples.
    """
    whole = {split: Examples([], []) for split in SPLITS}
    for row in open_source(task, paths, "strict").rows():
        if isinstance(row, Row) and row.split in whole and row.label is not None:
            whole[row.split].texts.append(row.texts)
            whole[row.split].labels.append(row.label)
    started = time.perf_counter()
    counts = {split: len(whole[split].labels) for split in SPLITS}
    majority = Counter(whole["train"].labels).most_common(1)[0][0]
    found = {
        **counts,
        "bag_of_words": accuracy(whole),
        "majority": 100 * whole["valid"].labels.count(majority) / counts["valid"],
        "seconds": time.perf_counter() - started,
    }
    if data is not None:
        truncated = {split: read_data(data, split, len(task.texts)) for split in SPLITS}
        if {split: len(truncated[split].labels) for split in SPLITS} != counts:
            raise UserError(f"--data {data}: made from other files of {task.name}; expected {counts} examples")
        found["bag_of_words_truncated"] = accuracy(truncated)
    return found


def accuracy(examples: Mapping[str, Examples]) -> float:
    """Percent of the examples of valid that a bag of words fitted on train has right."""
    features: dict[str, list[Any]] = {split: [] for split in SPLITS}
    for number in range(len(examples["train"].texts[0])):
        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        features["train"].append(words.fit_transform([texts[number] for texts in examples["train"].texts]))
        features["valid"].append(words.transform([texts[number] for texts in examples["valid"].texts]))
    fitted = LogisticRegression(C=PENALTY, max_iter=2000)
    fitted.fit(sparse.hstack(features["train"]).tocsr(), examples["train"].labels)
    return float(100 * fitted.score(sparse.hstack(features["valid"]).tocsr(), examples["valid"].labels))


def read_data(folder: Path, split: str, inputs: int) -> Examples:
    """The examples of a data folder of `linformer data task`, as text.

    Args:
        folder: the data folder.
        split: name of the split.
        inputs: number of texts of an example.

    Raises:
        UserError: a file is missing or damaged.
    """
    columns = []
    for name in (*(f"input{number}" for number in range(inputs)), "label"):
        dataset = open_dataset(folder / name / split)
        text = decoder(folder / name, symbols_of(folder / name / "dict.txt"))
        columns.append([text(dataset.item(number)) for number in range(dataset.items)])
    return Examples(list(zip(*columns[:-1], strict=True)), columns[-1])


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.bag_of_words", __doc__)
    parser.add_argument("task", choices=list(TASKS), help="name of the task")
    parser.add_argument(
        *("--from",), dest="source", type=Path, nargs="+", required=True, help="files, as for `linformer data task`"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file; its name is the task's in the tables")
    parser.add_argument(
        "--data", type=Path, help="data folder of the task: also the accuracy on its texts, which may be truncated"
    )
    args = parser.parse_args(argv)
    found = {"task": args.out.stem, **scores(TASKS[args.task], args.source, args.data)}
    write_json(args.out, found)
    truncated = f" ({found['bag_of_words_truncated']:.1f} % as in {args.data})" if args.data else ""
    print(
        f"{found['task']}: bag of words {found['bag_of_words']:.1f} %{truncated}, "
        f"most frequent answer {found['majority']:.1f} %"
    )


if __name__ == "__main__":
    run_program(main)
