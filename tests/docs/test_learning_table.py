"""README's table of accuracies holds the medians of the stored runs."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from typing import Any

import pytest

from tests.docs.pages import REPOSITORY

RESULTS = REPOSITORY / "results" / "learning"
TASKS = ("sst2", "imdb", "qnli", "qqp")


def readme_row(name: str) -> list[str]:
    """The cells of perplexity and tasks in README's row of this name."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8").split("\n## Learning\n")[1]
    (line,) = [line for line in readme.split("\n## ")[0].splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def rows(stored: str) -> list[dict[str, Any]]:
    return list(map(json.loads, (RESULTS / stored / "runs.jsonl").read_text(encoding="utf-8").splitlines()))


def accuracies(stored: str, which: str = "best") -> dict[tuple[str, str], list[float]]:
    """The best or the final accuracies of finetunings by pretraining and task."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows(stored):
        if row["stage"] == "finetuning" and row["finished"] and row["accuracy"]:
            found[row["pretrained"]["run"], row["task"]].append(row["accuracy"][which])
    return found


@pytest.mark.parametrize(
    ("name", "stored", "run"),
    [
        ("`linformer-small`", "released", "linformer_small_batches_s1"),
        ("fairseq's RoBERTa", "released", "roberta_small_batches_s1"),
        ("`linformer-small`, pretrained further on film reviews", "tried", "reviews10"),
    ],
)
def test_perplexities_are_those_of_the_pretrainings(name: str, stored: str, run: str) -> None:
    (perplexity,) = [row["perplexity"]["best"] for row in rows(stored) if row["name"] == run]
    assert readme_row(name)[0].split()[0] == f"{perplexity:.1f}"


@pytest.mark.parametrize(
    ("name", "pretraining"),
    [("`linformer-small`", "linformer_small_batches_s1"), ("fairseq's RoBERTa", "roberta_small_batches_s1")],
)
def test_models_have_the_medians_of_their_runs(name: str, pretraining: str) -> None:
    best, last = (
        {task: found[pretraining, task] for task in TASKS if (pretraining, task) in found}
        for found in (accuracies("released"), accuracies("released", "final"))
    )
    assert [len(values) for values in best.values()] == [5] * (4 if "small`" in name else 3)
    cells = [
        f"{statistics.median(best[task]):.1f} ({statistics.median(last[task]):.1f})" if task in best else "not made"
        for task in TASKS
    ]
    assert readme_row(name)[1:] == cells


def test_the_bag_of_words_has_its_stored_accuracies() -> None:
    files = [RESULTS / "released" / f"{task}.json" for task in TASKS]
    stored = [f"{json.loads(path.read_text(encoding='utf-8'))['bag_of_words']:.1f}" for path in files]
    assert readme_row("bag of words (tf-idf, logistic regression), whole texts")[1:] == stored


def test_models_without_pretraining_have_the_medians_of_their_runs() -> None:
    found = accuracies("released")
    cells = readme_row("without pretraining, one or two seeds: Linformer; RoBERTa")[1:]
    for task, cell in zip(TASKS, cells, strict=True):
        ours = found.get(("untrained_linformer_s1", task)) or found["untrained", task]
        theirs = found.get(("untrained_roberta_s1", task))
        assert len(ours) in (1, 2) and (theirs is None or len(theirs) in (1, 2))
        assert cell == f"{statistics.median(ours):.1f}; {f'{statistics.median(theirs):.1f}' if theirs else '-'}"


def test_the_model_of_reviews_has_the_accuracies_of_its_runs() -> None:
    sst2, imdb, *others = readme_row("`linformer-small`, pretrained further on film reviews")[1:]
    medians = [statistics.median(accuracies("tried", which)["reviews10", "sst2"]) for which in ("best", "final")]
    assert sst2 == f"{medians[0]:.1f} ({medians[1]:.1f})"
    seeds = [row["accuracy"]["best"] for row in rows("tried") if row["name"] in ("imdb10_s1", "imdb10_s2")]
    assert imdb == f"{min(seeds)} and {max(seeds)} (two seeds)" and others == ["-", "-"]
