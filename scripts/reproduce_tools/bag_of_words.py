"""Accuracy of a bag of words on a task: the control that a pretrained model has to beat.

    python -m scripts.reproduce_tools.bag_of_words sst2 --from GLUE/SST-2 --out sst2.json
    python -m scripts.reproduce_tools.bag_of_words tsv --from authors/train.tsv authors/valid.tsv --out authors.json

The model is logistic regression (scikit-learn) on tf-idf of words and bigrams, separately for each text of an example,
fitted on all of train and scored on valid. Texts are not truncated. The second control always predicts the most
frequent label of train.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS, Task
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from linformer_fairseq.files.json_records import write_json

PENALTY = 8.0
"""C of the regression (inverse of the regularization strength), for every task."""


def scores(task: Task, paths: list[Path]) -> dict[str, Any]:
    """Accuracies in percent on valid.

    Args:
        task: the task.
        paths: its files.

    Raises:
        UserError: the files are missing or damaged.
    """
    rows: dict[str, list[Row]] = {"train": [], "valid": []}
    for row in open_source(task, paths, "strict").rows():
        if isinstance(row, Row) and row.split in rows and row.label is not None:
            rows[row.split].append(row)
    started = time.perf_counter()
    train, valid = rows["train"], rows["valid"]
    labels = {split: [row.label for row in found] for split, found in rows.items()}
    features: dict[str, list[Any]] = {"train": [], "valid": []}
    for number in range(len(train[0].texts)):
        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        features["train"].append(words.fit_transform([row.texts[number] for row in train]))
        features["valid"].append(words.transform([row.texts[number] for row in valid]))
    fitted = LogisticRegression(C=PENALTY, max_iter=2000)
    fitted.fit(sparse.hstack(features["train"]).tocsr(), labels["train"])
    majority = Counter(labels["train"]).most_common(1)[0][0]
    return {
        "train": len(train),
        "valid": len(valid),
        "bag_of_words": 100 * fitted.score(sparse.hstack(features["valid"]).tocsr(), labels["valid"]),
        "majority": 100 * labels["valid"].count(majority) / len(valid),
        "seconds": time.perf_counter() - started,
    }


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.bag_of_words", __doc__)
    parser.add_argument("task", choices=list(TASKS), help="name of the task")
    parser.add_argument(
        *("--from",), dest="source", type=Path, nargs="+", required=True, help="files, as for `linformer data task`"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file; its name is the task's in the tables")
    args = parser.parse_args(argv)
    found = {"task": args.out.stem, **scores(TASKS[args.task], args.source)}
    write_json(args.out, found)
    print(
        f"{found['task']}: bag of words {found['bag_of_words']:.1f} %, most frequent answer {found['majority']:.1f} %"
    )


if __name__ == "__main__":
    run_program(main)
