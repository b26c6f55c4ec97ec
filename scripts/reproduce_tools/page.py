"""The README.md of the results at small scale: where they come from, how large all is, what they show and what not.

    python -m scripts.reproduce_tools.page --work DIR --results DIR --command "scripts/reproduce_small.sh ..."

Numbers are read from the rows and from the data that the runs had; sentences that depend on them are chosen by them.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.support.errors import DataError
from data_prep.support.files import write_text
from data_prep.support.program import run_program
from data_prep.tasks.definitions import TASKS as OFFICIAL
from linformer_fairseq.mmap_files import Damaged, open_dataset
from linformer_fairseq.results import Row, read_rows
from linformer_fairseq.results.paper import SOURCE, TASKS
from linformer_fairseq.results.selection import model_name, provenance

_SPECIAL = 4
"""fairseq's symbols before those of a dictionary's file; label ids begin there."""


@dataclass(frozen=True)
class Task:
    """What a task's runs had."""

    train: int
    valid: int
    majority: float
    """Accuracy in percent of always giving the label that is most frequent in valid."""


def page(work: Path, results: Path, command: str) -> str:
    """The text.

    Args:
        work: folder with bin, text and a folder for each task.
        results: folder with runs.jsonl and the figure.
        command: as it was typed.

    Raises:
        ResultsError, Damaged, OSError: something is missing or damaged.
    """
    rows = read_rows(results / "runs.jsonl")
    pretrainings = [row for row in rows if row.stage == "pretraining"]
    finetunings = [row for row in rows if row.stage == "finetuning"]
    tasks = {task: read_task(work / task) for task in TASKS}
    unigram = unigram_perplexity(work / "bin")
    words = json.loads((work / "text" / "manifest.json").read_text())["splits"]["train"]["words"]
    figures = sorted(path.name for path in results.glob("figure3*.png"))
    hours = sum(row.wall_seconds for row in rows) / 3600
    parts = [
        "# The paper's Figure 3 and Table 2 at small scale",
        f"Made by `{command}`. {provenance(rows)} The runs took {hours:.1f} hours together, each on one thread.",
        "\n".join(f"![Validation perplexity against updates]({name})" for name in figures),
        "Accuracy beside the paper's is in [table2.md](table2.md) (LaTeX: table2.tex), one row per run in "
        "[runs.jsonl](runs.jsonl); [../README.md](../README.md) tells its fields.",
        "## How small",
        _scale_table(pretrainings, words, symbols(work / "bin" / "dict.txt")),
        "## Perplexity",
        _perplexity_table(pretrainings, unigram),
        f"The frequencies of the words alone, whatever stands around them, give {unigram:,.0f} on the same text.",
        "## Tasks",
        _task_table(finetunings, tasks),
        "## What this shows",
        "From text to table, every part of the chain works at any size: corpus, vocabulary, configs, launcher, "
        "finetuning, rows, table and figure. A stopped chain goes on where it was.",
        "\n".join(f"- {sentence}" for sentence in _findings(pretrainings, finetunings, tasks, unigram)),
        "## What it does not show",
        _limits(pretrainings),
    ]
    return "\n\n".join(parts) + "\n"


def read_task(folder: Path) -> Task:
    """Counts of a prepared task."""
    counts = {}
    for split in ("train", "valid"):
        dataset = open_dataset(folder / "label" / split)
        ids = np.fromfile(folder / "label" / f"{split}.bin", dataset.dtype)
        counts[split] = np.bincount(ids)[_SPECIAL:]
    train, valid = counts["train"], counts["valid"]
    return Task(int(train.sum()), int(valid.sum()), 100 * float(valid.max() / valid.sum()))


def symbols(dictionary: Path) -> int:
    """Entries of a dictionary's file."""
    return len(dictionary.read_text(encoding="utf-8").splitlines())


def unigram_perplexity(folder: Path) -> float:
    """Perplexity on valid of the frequencies in train, with a tenth added to each count."""
    ids = {
        split: np.fromfile(folder / f"{split}.bin", open_dataset(folder / split).dtype) for split in ("train", "valid")
    }
    counts = np.bincount(ids["train"], minlength=symbols(folder / "dict.txt") + _SPECIAL) + 0.1
    return math.exp(-float(np.log(counts / counts.sum())[ids["valid"]].mean()))


def _table(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|---|" + "---:|" * (len(lines[0]) - 1), *rows[1:]])


def _scale_table(runs: list[Row], words: int, vocabulary: int) -> str:
    model, scale = runs[0].model, runs[0].scale
    lengths = sorted({row.model.n for row in runs})
    tokens = (scale.max_update or 0) * (scale.tokens_per_update or 0)
    return _table(
        [
            ["", "here", f"paper ({SOURCE})"],
            ["model", f"{model.layers} layers x {model.width}, {model.heads} heads", "12 layers x 768, 12 heads"],
            ["updates", f"{scale.max_update:,}", "250,000"],
            ["tokens in training", f"{tokens / 1e6:,.1f} million", "not said"],
            ["text", f"{words / 1e6:,.1f} million words", "3,300 million words"],
            ["vocabulary", f"{vocabulary:,}", "not said"],
            ["n", f"{lengths[0]} to {lengths[-1]}", "512 to 4,096"],
            ["seeds in pretraining", str(len({row.seed for row in runs})), "not said"],
        ]
    )


def _perplexity_table(runs: list[Row], unigram: float) -> str:
    lines = [["", "parameters", "perplexity at the end", "of that of word frequencies", "minutes"]]
    for row in sorted(runs, key=lambda row: (row.model.family != "roberta", row.model.n, str(row.model.k), row.name)):
        final = row.perplexity.final if row.perplexity else None
        lines.append(
            [
                model_name(row.model, with_n=True) + ("" if row.finished else " (unfinished)"),
                f"{row.model.parameters:,}" if row.model.parameters else "-",
                f"{final:,.1f}" if final else "-",
                f"{final / unigram:.0%}" if final else "-",
                f"{row.wall_seconds / 60:.1f}",
            ]
        )
    return _table(lines)


def _task_table(runs: list[Row], tasks: dict[str, Task]) -> str:
    lines = [["", *TASKS.values()]]
    for split, title in (("train", "training"), ("valid", "validation")):
        counts = (f"{getattr(task, split):,} ({OFFICIAL[name].official[split]:,})" for name, task in tasks.items())
        lines.append([f"examples for {title} (in the official files)", *counts])
    lines.append(["always the most frequent answer", *(f"{task.majority:.1f} %" for task in tasks.values())])
    for model in sorted({_finetuned(row) for row in runs}):
        cells = []
        for task in TASKS:
            found = _accuracies(runs, model, task)
            cells.append(f"{min(found):.1f} to {max(found):.1f} %" if found else "-")
        lines.append([f"{model}, lowest to highest seed", *cells])
    return _table(lines)


def _finetuned(row: Row) -> str:
    return model_name(row.model, with_n=True)


def _accuracies(runs: list[Row], model: str, task: str) -> list[float]:
    return [
        row.accuracy.best
        for row in runs
        if row.finished and row.accuracy and row.task == task and _finetuned(row) == model
    ]


def _findings(pretrainings: list[Row], runs: list[Row], tasks: dict[str, Task], unigram: float) -> list[str]:
    """Sentences that the numbers bear out."""
    finals = {row.name: row.perplexity.final for row in pretrainings if row.perplexity and row.perplexity.final}
    beyond = [name for name, final in finals.items() if final < 0.9 * unigram]
    found = [
        f"{len(beyond)} of {len(pretrainings)} models end at least a tenth below the perplexity of word frequencies: "
        "they have learned something of what stands around a word."
    ]
    found += [_order_of(row, pretrainings) for row in pretrainings if row.model.family == "roberta"]
    learned: list[str] = []
    chance: list[str] = []
    for model in sorted({_finetuned(row) for row in runs}):
        for task, title in TASKS.items():
            accuracies = _accuracies(runs, model, task)
            if accuracies:
                (learned if min(accuracies) > tasks[task].majority + 2 else chance).append(f"{title} ({model})")
    if learned:
        found.append("More than two points above the most frequent answer with every seed: " + "; ".join(learned) + ".")
    if chance:
        found.append(
            "Not so, which means that nothing, or nothing that is certain, was learned: " + "; ".join(chance) + "."
        )
    return found


def _order_of(baseline: Row, pretrainings: list[Row]) -> str:
    """How many Linformers of its n end below the RoBERTa, and whether the order was another one on the way."""
    others = [row for row in pretrainings if row.model.n == baseline.model.n and row is not baseline]
    final = baseline.perplexity.final if baseline.perplexity else None
    below = [row for row in others if row.perplexity and row.perplexity.final and row.perplexity.final < (final or 0)]
    return (
        f"{len(below)} of {len(others)} Linformers with n = {baseline.model.n} end below the RoBERTa in perplexity. "
        f"{_order_on_the_way(baseline, others)}In the paper they come close to it (section 5.1). There is one seed of "
        "each model: what another one would change is not known."
    )


def _order_on_the_way(baseline: Row, others: list[Row]) -> str:
    """What the validations before the last one say about the order of models that all of them have reached."""
    runs = [baseline, *others]
    curves = [{int(update): ppl for update, ppl in row.curve if update and ppl} for row in runs]
    updates = sorted(set.intersection(*map(set, curves)))
    if len(updates) < 2:
        return ""
    orders = [[i for _, i in sorted((curve[update], i) for i, curve in enumerate(curves))] for update in updates]
    below = {frozenset(order[: order.index(0)]) for order in orders}
    same = "It is the same ones" if len(below) == 1 else "It is not always the same ones"
    text = f"{same} at each of the {len(updates)} validations from update {updates[0]:,} on"
    moving = [i for i in orders[-1] if len({order.index(i) for order in orders}) > 1]
    if not moving:
        return f"{text}, and the order of all models is, too. "
    last = [curves[i][updates[-1]] for i in moving]
    names = "; ".join(model_name(runs[i].model) for i in moving)
    apart = 100 * (max(last) / min(last) - 1)
    return f"{text}. Only these change places, and end within {apart:.1f} % of each other: {names}. "


def _limits(pretrainings: list[Row]) -> str:
    longest = max(row.model.n for row in pretrainings)
    return "\n".join(
        f"- {sentence}"
        for sentence in (
            "How good Linformers are. These models are more than a hundred times smaller and have seen a vanishing "
            "part of the text; what separates them after so few updates need not separate them at the end, and the "
            "paper's statements are about the end.",
            "Which of two close curves is better: there is one pretraining of each model, validated on a sample of the "
            "held-out text. At another n the sample and its masks are others, too.",
            f"Speed. Runs share the machine, and n is at most {longest}; what a Linformer saves grows with n.",
            "The tasks as they are reported elsewhere: the data are parts of the official ones (the table has both "
            "sizes), a few hundred updates see a part of them only, and long reviews are cut to n. The checkpoint is "
            "chosen by the accuracy that is reported.",
        )
    )


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.reproduce_tools.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--work", type=Path, required=True, help="folder with bin, text and the tasks")
    parser.add_argument("--results", type=Path, required=True, help="folder with runs.jsonl; README.md goes there")
    parser.add_argument("--command", required=True, help="what made the results")
    args = parser.parse_args(argv)
    try:
        text = page(args.work, args.results, args.command)
    except (ValueError, Damaged, OSError) as error:
        raise DataError(str(error)) from error
    write_text(args.results / "README.md", text)


if __name__ == "__main__":
    run_program(main)
