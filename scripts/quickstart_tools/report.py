"""Compare the models of a quickstart: table, figure, filled masks, and whether all learned.

    python -m scripts.quickstart_tools.report --run DIR [--shipped NAME]

reads fairseq's logs and checkpoints under DIR and writes DIR/report/: report.md, report.json,
perplexity.png. The exit status is 1 if a model did not learn. NAME is a model that comes with the
package and was finetuned here; it has no figures of pretraining.
"""

import argparse
import logging
import platform
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict

import torch
from fairseq import utils

from data_prep.support.program import run_program
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.provenance import commit, date, machine, versions
from linformer_fairseq.launch.train import accelerator
from linformer_fairseq.models import LinformerHubInterface, LinformerRobertaModel
from linformer_fairseq.results import TrainingLog, read_log
from scripts.quickstart_tools.evaluate import evaluate
from scripts.quickstart_tools.plot import plot_perplexity

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = {"linformer": "Linformer", "roberta": "RoBERTa"}
SENTENCES = ("Return a new <mask> object.", "If the argument is <mask>, a ValueError is raised.")
"""Sentences for the model that is pretrained here, on manuals."""
SENTENCES_OF_SHIPPED = (
    "He opened the <mask> and walked into the room.",
    "He shook his <mask> and said nothing.",
    "The film was directed <mask> John Ford.",
    "The book was first <mask> in 1920.",
)
FILLERS = 3
MODEL_CARD = "linformer_fairseq/weights/README.md"
# What "learned" means: perplexity at most a fifth, accuracy at least twice the majority class's.
PERPLEXITY_FACTOR, ACCURACY_FACTOR = 5, 2


class FilledMask(TypedDict):
    """A sentence with <mask>, and the likeliest tokens for it with their probabilities."""

    sentence: str
    fillers: list[tuple[str, float]]


@dataclass(frozen=True)
class Result:
    """The measured figures of one model; those of pretraining are None if it was not pretrained here."""

    parameters: int
    perplexity_before: float | None
    perplexity_after: float | None
    accuracy: float
    finetuning_updates: int
    tokens_per_second: float | None
    seconds: dict[str, int]
    """Wall time of its pretraining and finetuning, all attempts together."""


def measure(run: Path, model: str) -> tuple[Result, dict[int, float]]:
    """Figures of one model and its perplexity by update."""
    pretraining = _log(run / f"pretrain_{model}", "speed", "perplexity")
    evaluation = evaluate(run / f"pretrain_{model}" / "checkpoint_last.pt")
    result = replace(
        measure_finetuning(run, model, evaluation.parameters),
        perplexity_before=round(evaluation.before, 1),
        perplexity_after=round(evaluation.after, 1),
        tokens_per_second=round(pretraining.tokens_per_second or 0),
    )
    return result, {0: evaluation.before, **pretraining.perplexity}


def measure_finetuning(run: Path, model: str, parameters: int) -> Result:
    """Figures of a model that was only finetuned here; ``model`` is its name in the name of its folder."""
    finetuning = _log(run / f"finetune_{model}", "accuracy")
    last = max(finetuning.accuracy)  # the best would be selected on the validation set
    steps = {step: run / ".steps" / f"{step}_{model}.seconds" for step in ("pretrain", "finetune")}
    return Result(
        parameters=parameters,
        perplexity_before=None,
        perplexity_after=None,
        accuracy=finetuning.accuracy[last],
        finetuning_updates=last,
        tokens_per_second=None,
        seconds={step: int(path.read_text()) for step, path in steps.items() if path.exists()},
    )


def _log(folder: Path, *curves: str) -> TrainingLog:
    """The log of a run; a ValueError if one of these fields is empty."""
    path = folder / "train.log"
    log = read_log(path)
    if missing := [curve for curve in curves if not getattr(log, curve)]:
        raise ValueError(f"{path}: no {' and no '.join(missing)} in this log; was the training long enough?")
    return log


def shortcomings(results: dict[str, Result], majority: float) -> list[str]:
    """One sentence for each model and each criterion that it missed."""
    missed = []
    for name, result in results.items():
        before, after = result.perplexity_before, result.perplexity_after
        if before is not None and after is not None and after * PERPLEXITY_FACTOR > before:
            missed.append(
                f"{name}: validation perplexity {after:,.1f} is more than a fifth of the "
                f"untrained model's {before:,.1f}"
            )
        if result.accuracy < ACCURACY_FACTOR * majority:
            missed.append(
                f"{name}: accuracy {result.accuracy:.1f} % is less than twice the majority class's {majority:.1f} %"
            )
    return missed


def table(results: dict[str, Result], majority: float) -> list[list[str]]:
    """Rows of the table; the first holds the headings."""
    rows = [["", *results]]
    values = list(results.values())
    rows.append(["parameters", *(f"{r.parameters:,}" for r in values)])
    rows.append(["validation perplexity, untrained", *(_number(r.perplexity_before, ".1f") for r in values)])
    rows.append(["validation perplexity, pretrained", *(_number(r.perplexity_after, ".1f") for r in values)])
    title = f"accuracy of the last checkpoint (majority class: {majority:.1f} %)"
    rows.append([title, *(f"{r.accuracy:.1f} %" for r in values)])
    rows.append(["tokens per second in pretraining", *(_number(r.tokens_per_second, ".0f") for r in values)])
    rows.append(["finetuning updates", *(f"{r.finetuning_updates:,}" for r in values)])
    for step, title in (("pretrain", "pretraining"), ("finetune", "finetuning")):
        rows.append([f"{title}, wall time", *(_number(r.seconds.get(step), "d", " s") for r in values)])
    return rows


def accuracy_note(run: Path) -> str:
    """What the row of accuracies is, and the command that gives one of them again."""
    task, last = run / "task_bin", run / "finetune_linformer" / "checkpoint_last.pt"
    command = shlex.join(["linformer", "evaluate", str(last), str(task)])
    return (
        f"The Linformer's accuracy is that of: {command}\n"
        "A run folder in its place means the best checkpoint, which was selected on the same examples. The majority "
        "class is the most frequent one of train; its share is that in valid."
    )


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:,{form}}{unit}"


def provenance() -> dict[str, str]:
    """Commit, date, hardware and versions of the figures."""
    return {
        "commit": commit(REPOSITORY),
        "date": date(),
        "processor": f"{machine()} memory",
        "accelerator": accelerator(),
        "threads": str(torch.get_num_threads()),
        "system": platform.system(),
        **versions(),
    }


def fill_masks(hub: LinformerHubInterface, sentences: Sequence[str]) -> list[FilledMask]:
    """A model's most likely tokens for <mask>, with their probabilities."""
    filled = zip(sentences, hub.fill_mask(sentences, topk=FILLERS), strict=True)
    return [{"sentence": text, "fillers": [(token, round(p, 3)) for _, p, token in found]} for text, found in filled]


def _as_text(model: str, masks: list[FilledMask]) -> str:
    lines = [f"What {model} puts for <mask>:"]
    for mask in masks:
        lines += [mask["sentence"], "    " + ", ".join(f"{word!r} {p:.1%}" for word, p in mask["fillers"])]
    return "\n".join(lines)


def write_report(run: Path, shipped: str | None = None) -> list[str]:
    """Measure everything, write the report's files, print the table; returns the criteria that were missed.

    Args:
        run: the quickstart's output folder.
        shipped: name of the model that comes with the package and was finetuned, if there is one.

    Raises:
        ValueError: a log has no results, or a checkpoint cannot be used.
        FileNotFoundError: no model of the name ``shipped`` comes with the package.
    """
    utils.import_user_module(Namespace(user_dir=str(REPOSITORY / "linformer_fairseq")))
    stats = read_object(run / "task_text" / "stats.json")
    majority = float(stats["majority_accuracy"])
    measured = {title: measure(run, model) for model, title in MODELS.items()}
    results = {title: result for title, (result, _) in measured.items()}
    plot_perplexity({title: curve for title, (_, curve) in measured.items()}, run / "report" / "perplexity.png")
    own = LinformerRobertaModel.from_pretrained(run / "pretrain_linformer", "checkpoint_last.pt", run / "bin")
    masks = {MODELS["linformer"]: fill_masks(own, SENTENCES)}
    remarks = []
    if shipped is not None:
        hub = LinformerRobertaModel.from_pretrained(shipped)
        parameters = sum(parameter.numel() for parameter in hub.parameters())
        results[shipped] = measure_finetuning(run, "shipped", parameters)
        masks[shipped] = fill_masks(hub, SENTENCES_OF_SHIPPED)
        remarks = [f"{shipped} comes with the package, pretrained; {MODEL_CARD} describes how and on what."]
    origin = provenance()
    missed = shortcomings(results, majority)
    parts = [
        "\n".join(markdown_table(table(results, majority), padded=True)),
        accuracy_note(run),
        *remarks,
        *(_as_text(model, filled) for model, filled in masks.items()),
        "\n".join(f"{name}: {value}" for name, value in origin.items()),
        "\n".join(missed) if missed else "All models learned.",
    ]
    write_file(run / "report" / "report.md", "\n\n".join(parts) + "\n")
    write_json(
        run / "report" / "report.json",
        {
            "models": {title: asdict(result) for title, result in results.items()},
            "majority_accuracy": majority,
            "perplexity_by_update": {title: curve for title, (_, curve) in measured.items()},
            "fill_mask": masks,
            "provenance": origin,
            "missed": missed,
        },
    )
    print("\n\n".join(parts))
    print(f"\ntable and plot: {run / 'report'}")
    return missed


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.quickstart_tools.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=Path, required=True, help="the quickstart's output folder")
    parser.add_argument("--shipped", metavar="NAME", help="the model of the package that was also finetuned")
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)
    try:
        missed = write_report(args.run.resolve(), args.shipped)
    except (ValueError, FileNotFoundError) as error:
        raise UserError(str(error)) from error
    if missed:
        sys.exit("error: not everything was learned: " + "; ".join(missed))


if __name__ == "__main__":
    run_program(main)
