"""The options of the commands that measure and collect results."""

from __future__ import annotations

import argparse
from pathlib import Path

from linformer_fairseq.cli.arguments import add_device
from linformer_fairseq.files.option_types import count

ROWS = Path("results/runs.jsonl")
"""Default file of result rows."""


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Evaluate a finetuned checkpoint on a task prepared with `linformer data task`.

    Prints the accuracy, and F1 for QQP, computed as in fairseq's validation, except that the windows of a text
    (`linformer data task --cut windows`) are averaged. With --out, writes the prediction for each example; with
    --submission, the file for GLUE's evaluation server.
    """
    parser.add_argument(
        "checkpoint",
        help="checkpoint of a finetuning with --task sentence_prediction, its run folder, a folder made by `linformer "
        "checkpoint release` or `linformer import hf`, or a model that comes with the package",
    )
    parser.add_argument("data", type=Path, metavar="TASK", help="a folder made by `linformer data task`")
    parser.add_argument("--split", help="train, valid or test (default: test with --submission, otherwise valid)")
    parser.add_argument(
        "--batch-size", type=count, default=32, metavar="N", help="examples per batch (default: %(default)s)"
    )
    add_device(parser)
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument(
        "--compile-encoder", action="store_true", help="use torch.compile; pays off for many thousands of examples"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write a table of id, prediction, label and probability"
    )
    parser.add_argument("--scores", action="store_true", help="with --out: add the probability of each label")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="write the scores as JSON, with command, commit, machine and date, for `linformer card --results`",
    )
    parser.add_argument(
        "--submission",
        type=Path,
        metavar="FILE",
        help="write GLUE's submission file, by default for the test split; in an existing folder, under the name that "
        "GLUE expects",
    )


def report(parser: argparse.ArgumentParser) -> None:
    """Write one HTML page on all results: the paper's tables and figures beside ours.

      linformer report --out report.html

    The page has Tables 1 to 3, Figures 1 to 3, the theorems in numbers, what small models learn, and limits. The
    command, commit, date and hardware are below each measurement. What is missing is named, with the command that makes
    it. Figures are part of the page, which needs no network.
    """
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder with the layout of this project's results/ (default: results/ of the clone)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (default: %(default)s)"
    )


def results(parser: argparse.ArgumentParser) -> None:
    """Collect the results of runs, and make tables and figures from them.

    `linformer results collect runs` writes one row per run to a file that can be committed. `linformer results table2`
    and `linformer results figure3` show the rows in the form of the paper's Table 2 and Figure 3, and label runs that
    are not of the paper's size. `linformer results perplexity` and `linformer results accuracy` summarize all
    pretrainings and finetunings.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    gather = actions.add_parser(
        "collect",
        help="write one row per run folder below DIR",
        description="Read the run folders in and below DIR and write a row for each to a file of JSON lines, replacing "
        "earlier rows of the same runs, but not those of a later state. Damaged folders are reported and skipped. "
        "results/README.md describes the fields.",
    )
    gather.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a run folder, or a folder that contains some"
    )
    gather.add_argument(
        "--out", type=Path, default=ROWS, metavar="FILE", help="file of the rows (default: %(default)s)"
    )
    table = actions.add_parser(
        "table2",
        help="the paper's Table 2 and ours",
        description="Print accuracy on SST-2, IMDB, QNLI and QQP: the paper's Table 2, and ours as medians over seeds.",
    )
    table.add_argument("--format", choices=("markdown", "latex"), default="markdown", help="default: %(default)s")
    table.add_argument("--out", type=Path, metavar="FILE", help="write to a file instead of printing")
    figure = actions.add_parser(
        "figure3",
        help="the paper's Figure 3 from our runs",
        description="Draw validation perplexity against updates in the four panels of the paper's Figure 3, as PNG "
        "and SVG; one figure for each size of runs.",
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="folder for the files (default: that of the rows)")
    perplexity = actions.add_parser(
        "perplexity",
        help="perplexity of all pretrainings, and their curves",
        description="Print the perplexity of all pretrainings, summarized over seeds, with their speed and the "
        "perplexity of a RoBERTa after the same time; with --figure, draw the curves over tokens and over time as PNG "
        "and SVG.",
    )
    perplexity.add_argument("--out", type=Path, metavar="FILE", help="write the table to a file instead of printing")
    perplexity.add_argument("--figure", type=Path, metavar="DIR", help="draw the figure, into this folder")
    accuracy = actions.add_parser(
        "accuracy",
        help="accuracy of all finetunings",
        description="Print the accuracy of all finetunings by model and task, summarized over seeds, with their time.",
    )
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="write the table to a file instead of printing")
    accuracy.add_argument(
        "--controls",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="accuracy of bag-of-words classifiers: JSON files written by scripts.reproduce_tools.bag_of_words",
    )
    for reader in (table, figure, perplexity, accuracy):
        reader.add_argument(
            "--runs", type=Path, default=ROWS, metavar="FILE", help="file of the rows (default: %(default)s)"
        )
