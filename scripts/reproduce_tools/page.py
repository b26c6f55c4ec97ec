"""The README.md of the results at small scale: their provenance, the scale, and what they show and do not show.

    python -m scripts.reproduce_tools.page --work DIR --results DIR --command "scripts/reproduce_small.sh ..."

Numbers are read from the rows and from the data of the runs; sentences that depend on them are chosen accordingly.
The controls that are not runs, DIR/controls/TASK.json, are copied to the results.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS as OFFICIAL
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.dictionary import FIRST, read_symbols
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.mmap_dataset import open_dataset
from linformer_fairseq.results import Row, read_rows
from linformer_fairseq.results.accuracy import Control, control_rows, read_controls, truncated_note
from linformer_fairseq.results.paper import SOURCE, TASKS
from linformer_fairseq.results.perplexity import Group, groups, perplexity_table
from linformer_fairseq.results.selection import is_untrained, model_name, provenance
from linformer_fairseq.results.tables import spread

_CLOSE = 2.0
"""Largest difference in accuracy, in points, that counts as close."""


@dataclass(frozen=True)
class Task:
    """Data of a task, and the accuracies of its controls."""

    train: int
    valid: int
    control: Control


def page(work: Path, results: Path, command: str, controls: dict[str, Control]) -> str:
    """The text of the page.

    Args:
        work: folder with bin, text and a folder for each task.
        results: folder with runs.jsonl and the figures.
        command: as it was typed.
        controls: output of `bag_of_words`, by task.

    Raises:
        UserError, OSError: something is missing or damaged.
    """
    rows = read_rows(results / "runs.jsonl")
    pretrainings = [row for row in rows if row.stage == "pretraining" and not is_untrained(row)]
    finetunings = [row for row in rows if row.stage == "finetuning"]
    tasks = {task: read_task(work / task, controls[task]) for task in TASKS}
    unigram = unigram_perplexity(work / "bin")
    words = read_object(work / "text" / "manifest.json")["splits"]["train"]["words"]
    hours = sum(row.wall_seconds for row in rows) / 3600
    (table,), notes = perplexity_table(pretrainings)
    parts = [
        "# The paper's Figure 3 and Table 2 at small scale",
        f"Made by `{command}`. {provenance(rows)} The runs took {hours:.1f} hours together, each on one thread.",
        "\n".join(f"![Validation perplexity]({path.name})" for path in sorted(results.glob("*.png"))),
        "Accuracy, compared with the paper's, is in [table2.md](table2.md) (LaTeX: table2.tex), one row per run in "
        "[runs.jsonl](runs.jsonl); [../README.md](../README.md) describes its fields.",
        "## Scale",
        _scale_table(pretrainings, words, len(read_symbols(work / "bin" / "dict.txt"))),
        "## Perplexity",
        _table(table.rows),
        notes[0],
        f"Word frequencies, without any context, give a perplexity of {unigram:,.0f} on the same text.",
        "## Tasks",
        _task_table(finetunings, tasks),
        "Medians; in brackets lowest to highest and number of seeds. No pretraining: the initial weights, finetuned in "
        "the same way. Bag of words: tf-idf of words and pairs of words with logistic regression (scikit-learn), on "
        f"the whole texts.{truncated_note([task.control for task in tasks.values()])} The accuracy of a run is that of "
        "its best validation, which favours models over the bag of words by some tenths of a point. All runs have the "
        "same learning rate.",
        "## What this shows",
        "\n".join(f"- {sentence}" for sentence in _findings(pretrainings, finetunings, tasks)),
        "## What it does not show",
        _limits(pretrainings),
    ]
    return "\n\n".join(parts) + "\n"


def read_task(folder: Path, control: Control) -> Task:
    """Counts of a prepared task, with its controls."""
    train, valid = (open_dataset(folder / "label" / split).items for split in ("train", "valid"))
    return Task(train, valid, control)


def unigram_perplexity(folder: Path) -> float:
    """Perplexity of valid under the token frequencies of train, with 0.1 added to each count."""
    ids = {
        split: np.fromfile(folder / f"{split}.bin", open_dataset(folder / split).dtype) for split in ("train", "valid")
    }
    counts = np.bincount(ids["train"], minlength=len(read_symbols(folder / "dict.txt")) + FIRST) + 0.1
    return math.exp(-float(np.log(counts / counts.sum())[ids["valid"]].mean()))


def _table(lines: list[list[str]]) -> str:
    return "\n".join(markdown_table(lines, gap=""))


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


def _task_table(runs: list[Row], tasks: dict[str, Task]) -> str:
    lines = [["", *TASKS.values()]]
    for split, title in (("train", "training"), ("valid", "validation")):
        counts = (f"{getattr(task, split):,} ({OFFICIAL[name].official[split]:,})" for name, task in tasks.items())
        lines.append([f"examples for {title} (in the official files)", *counts])
    lines += control_rows([task.control for task in tasks.values()])
    for untrained in (True, False):
        for model in sorted({_finetuned(row) for row in runs if is_untrained(row) == untrained}):
            cells = [spread(_accuracies(runs, model, task, untrained)) for task in TASKS]
            lines.append([model + ", no pretraining" * untrained, *cells])
    return _table(lines)


def _finetuned(row: Row) -> str:
    return model_name(row.model, with_n=True)


def _accuracies(runs: list[Row], model: str, task: str, untrained: bool = False) -> list[float]:
    return [
        row.accuracy.best
        for row in runs
        if row.finished
        and row.accuracy
        and row.task == task
        and _finetuned(row) == model
        and is_untrained(row) == untrained
    ]


def _findings(pretrainings: list[Row], runs: list[Row], tasks: dict[str, Task]) -> list[str]:
    """Sentences about the numbers."""
    by_model, _ = groups(pretrainings)
    found = [sentence for baseline in by_model if baseline.is_baseline for sentence in _beside(baseline, by_model)]
    trained = [row for row in runs if not is_untrained(row)]
    models = {row.model.family: _finetuned(row) for row in trained}
    if models.keys() >= {"linformer", "roberta"}:
        points, close = [], 0
        for task, title in TASKS.items():
            ours, theirs = (_accuracies(runs, models[family], task) for family in ("linformer", "roberta"))
            if ours and theirs:
                difference = statistics.median(ours) - statistics.median(theirs)
                close += difference >= -_CLOSE
                points.append(f"{title} {difference:+.1f}")
        found.append(
            f"Difference of the median accuracies of Linformer and RoBERTa after finetuning, in points: "
            f"{', '.join(points)}. On {close} of {len(points)} tasks it is at most {_CLOSE:g} points behind."
        )
    for model in sorted(models.values()):
        above = [
            TASKS[name]
            for name, task in tasks.items()
            if (values := _accuracies(runs, model, name)) and statistics.median(values) > task.control.bag_of_words
        ]
        found.append(f"{model} is above the bag of words on {len(above)} of {len(TASKS)} tasks: {_listed(above)}.")
    return found


def _beside(baseline: Group, found: list[Group]) -> list[str]:
    """At how many validations the median perplexity of each Linformer with the same n is below the RoBERTa's."""
    by_updates, by_hours = [], []
    for group in found:
        if not group.is_baseline and group.rows[0].model.n == baseline.rows[0].model.n:
            by_updates.append(f"{group.name}: {_below(group.curve, baseline.curve)}")
            then = {update: group.hours_at(update) for update in group.curve}
            theirs = {update: baseline.after(hours) for update, hours in then.items() if hours is not None}
            by_hours.append(f"{group.name}: {_below(group.curve, theirs)}")
    return [
        f"Validations at which the median perplexity is below that of {baseline.name} after as many updates: "
        f"{_listed(by_updates)}.",
        f"The same after as many hours of training, from {baseline.name}'s first validation on, and interpolated "
        f"between its validations: {_listed(by_hours)}.",
    ]


def _below(ours: Mapping[int, float], theirs: Mapping[int, float | None]) -> str:
    pairs = [(ours[at], other) for at, other in theirs.items() if at in ours and other is not None]
    return f"{sum(mine < other for mine, other in pairs)} of {len(pairs)}"


def _listed(items: list[str]) -> str:
    return "; ".join(items) or "none"


def _limits(pretrainings: list[Row]) -> str:
    longest = max(row.model.n for row in pretrainings)
    return "\n".join(
        f"- {sentence}"
        for sentence in (
            "How good Linformers are at the end of a full training. These models are more than a hundred times smaller "
            "than the paper's and have seen a tiny part of the text; the paper's statements are about the end.",
            "Which of two close curves is better, if a model has one seed. With another n, the sample of the held-out "
            "text and its masks are also different.",
            f"Speed. Runs share the machine, and n is at most {longest}; the time that a Linformer saves grows with n.",
            "Accuracy that can be compared with published results: the data are parts of the official ones (the table "
            "has both sizes), a few hundred updates use only a part of them, and long reviews are truncated to n. The "
            "checkpoint is selected by the accuracy that is reported.",
        )
    )


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.page", __doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder with bin, text and the tasks")
    parser.add_argument("--results", type=Path, required=True, help="folder with runs.jsonl; README.md goes there")
    parser.add_argument("--command", required=True, help="what made the results")
    args = parser.parse_args(argv)
    try:
        files = {name: args.work / "controls" / f"{name}.json" for name in TASKS}
        controls = dict(zip(files, read_controls(files.values()), strict=True))
        text = page(args.work, args.results, args.command, controls)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    write_file(args.results / "README.md", text)
    write_json(args.results / "controls.json", {name: read_object(path) for name, path in files.items()})


if __name__ == "__main__":
    run_program(main)
