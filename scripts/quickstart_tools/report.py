"""Compare the two models of a quickstart: table, figure, filled masks, and whether both learned.

    python -m scripts.quickstart_tools.report --run DIR

reads fairseq's logs and checkpoints under DIR and writes DIR/report/: report.md, report.json,
perplexity.png. Exit status 1 where a model did not learn.
"""

import argparse
import logging
import platform
import sys
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from fairseq import utils

from data_prep.support.program import run_program
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.provenance import commit, date, machine, versions
from linformer_fairseq.launch.train import accelerator
from linformer_fairseq.results import TrainingLog, read_log
from scripts.quickstart_tools.evaluate import evaluate
from scripts.quickstart_tools.plot import plot_perplexity

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = {"linformer": "Linformer", "roberta": "RoBERTa"}
SENTENCES = ("Return a new <mask> object.", "If the argument is <mask>, a ValueError is raised.")
# What "learned" means: perplexity at most a fifth, accuracy at least twice the majority class's.
PERPLEXITY_FACTOR, ACCURACY_FACTOR = 5, 2


@dataclass(frozen=True)
class Result:
    """The measured figures of one model."""

    parameters: int
    perplexity_before: float
    perplexity_after: float
    accuracy: float
    tokens_per_second: float
    seconds: dict[str, int]
    """Wall time of its pretraining and finetuning, all attempts together."""


def measure(run: Path, model: str) -> tuple[Result, dict[int, float]]:
    """Figures of one model and its perplexity by update."""
    pretraining = _log(run / f"pretrain_{model}")
    finetuning = _log(run / f"finetune_{model}")
    evaluation = evaluate(run / f"pretrain_{model}" / "checkpoint_last.pt")
    steps = {step: run / ".steps" / f"{step}_{model}.seconds" for step in ("pretrain", "finetune")}
    result = Result(
        parameters=evaluation.parameters,
        perplexity_before=round(evaluation.before, 1),
        perplexity_after=round(evaluation.after, 1),
        accuracy=finetuning.accuracy[max(finetuning.accuracy)],  # the last one: the best would be a choice
        tokens_per_second=round(pretraining.tokens_per_second or 0),
        seconds={step: int(path.read_text()) for step, path in steps.items() if path.exists()},
    )
    return result, {0: evaluation.before, **pretraining.perplexity}


def _log(folder: Path) -> TrainingLog:
    path = folder / "train.log"
    log = read_log(path)
    if not log.speed or not (log.perplexity or log.accuracy):
        raise ValueError(f"{path}: no training progress or no validation in this log")
    return log


def shortcomings(results: dict[str, Result], majority: float) -> list[str]:
    """One sentence per model and aim that was missed."""
    missed = []
    for name, result in results.items():
        if result.perplexity_after * PERPLEXITY_FACTOR > result.perplexity_before:
            missed.append(
                f"{name}: validation perplexity {result.perplexity_after:,.1f} is more than a fifth of the "
                f"untrained model's {result.perplexity_before:,.1f}"
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
    rows.append(["validation perplexity, untrained", *(f"{r.perplexity_before:,.1f}" for r in values)])
    rows.append(["validation perplexity, pretrained", *(f"{r.perplexity_after:,.1f}" for r in values)])
    rows.append([f"accuracy (majority class: {majority:.1f} %)", *(f"{r.accuracy:.1f} %" for r in values)])
    rows.append(["tokens per second in pretraining", *(f"{r.tokens_per_second:,.0f}" for r in values)])
    for step, title in (("pretrain", "pretraining"), ("finetune", "finetuning")):
        rows.append([f"{title}, wall time", *(f"{r.seconds.get(step, 0)} s" for r in values)])
    return rows


def markdown(rows: list[list[str]]) -> str:
    """The rows as a Markdown table that reads well as plain text too."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: list[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return f"| {' | '.join(cells)} |"

    rule = f"|{'-' * (widths[0] + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths[1:])
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


def provenance() -> dict[str, str]:
    """What a reader needs to judge and repeat the figures."""
    return {
        "commit": commit(REPOSITORY),
        "date": date(),
        "processor": f"{machine()} memory",
        "accelerator": accelerator(),
        "threads": str(torch.get_num_threads()),
        "system": f"{platform.system()} {platform.release()}",
        **versions(),
    }


def filled_masks(run: Path) -> list[dict[str, object]]:
    """What the Linformer puts for <mask>, through the hub interface."""
    from linformer_fairseq.models import LinformerRobertaModel

    hub = LinformerRobertaModel.from_pretrained(
        str(run / "pretrain_linformer"), checkpoint_file="checkpoint_last.pt", data_name_or_path=str(run / "bin")
    )
    hub.eval()
    return [
        {"sentence": text, "fillers": [[f[2], round(f[1], 3)] for f in hub.fill_mask(text, topk=5)]}
        for text in SENTENCES
    ]


def write_report(run: Path) -> list[str]:
    """Measure everything, write the report's files, print the table; returns what was missed."""
    utils.import_user_module(Namespace(user_dir=str(REPOSITORY / "linformer_fairseq")))
    stats = read_object(run / "task_text" / "stats.json")
    majority = float(stats["majority_accuracy"])
    measured = {title: measure(run, model) for model, title in MODELS.items()}
    results = {title: result for title, (result, _) in measured.items()}
    plot_perplexity({title: curve for title, (_, curve) in measured.items()}, run / "report" / "perplexity.png")
    masks = filled_masks(run)
    origin = provenance()
    missed = shortcomings(results, majority)
    parts = [
        markdown(table(results, majority)),
        "\n".join(
            f"{mask['sentence']}\n    " + ", ".join(f"{word!r} {p:.1%}" for word, p in mask["fillers"])  # type: ignore[attr-defined]
            for mask in masks
        ),
        "\n".join(f"{name}: {value}" for name, value in origin.items()),
        "\n".join(missed) if missed else "Both models learned.",
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
    print(f"\nfigure and figures: {run / 'report'}")
    return missed


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.quickstart_tools.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=Path, required=True, help="the quickstart's output folder")
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)
    try:
        missed = write_report(args.run.resolve())
    except ValueError as error:
        raise UserError(str(error)) from error
    if missed:
        sys.exit("error: not everything was learned: " + "; ".join(missed))


if __name__ == "__main__":
    run_program(main)
