"""Collect the results of runs, and make the paper's table and figure from them.

`linformer results collect runs` makes one row per run, in a file that can be committed; `linformer results table2` and
`linformer results figure3` put the rows beside the paper's. Runs of another size than the paper's are labelled so.
`linformer results perplexity` is for any pretrainings, `linformer results accuracy` for any finetunings.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from linformer_fairseq.cli.command import CommandError
from linformer_fairseq.results import ResultsError, collect, merge_rows, read_rows
from linformer_fairseq.results.figure3 import Figure

_ROWS = Path("results/runs.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`linformer results` has subcommands of its own."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    gather = actions.add_parser(
        "collect",
        help="one row per run from the run folders below DIR",
        description="Read the run folders in and below DIR and put a row for each into a file of JSON lines, in the "
        "place of an earlier row of the same run. Damaged folders are named and left out. The fields of a row are "
        "described in results/README.md.",
    )
    gather.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a run's folder, or one above it")
    gather.add_argument("--out", type=Path, default=_ROWS, metavar="FILE", help="the rows (default: %(default)s)")
    table = actions.add_parser(
        "table2",
        help="the paper's Table 2 beside ours",
        description="Print accuracy on SST-2, IMDB, QNLI and QQP: the paper's Table 2, and ours as medians over seeds.",
    )
    table.add_argument("--format", choices=("markdown", "latex"), default="markdown", help="default: %(default)s")
    table.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    figure = actions.add_parser(
        "figure3",
        help="the paper's Figure 3 from our runs",
        description="Draw validation perplexity against updates in the four panels of the paper's Figure 3, as PNG "
        "and SVG; one figure for each scale that there are runs of.",
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="folder of the files (default: that of the rows)")
    perplexity = actions.add_parser(
        "perplexity",
        help="perplexity of all pretrainings, and their curves",
        description="Print the perplexity of all pretrainings, seeds together, with their speed and that of a RoBERTa "
        "after the same time; and draw their curves over tokens and over hours of training, as PNG and SVG.",
    )
    perplexity.add_argument("--out", type=Path, metavar="FILE", help="write the table there instead of printing")
    perplexity.add_argument("--figure", type=Path, metavar="DIR", help="folder of the figure (default: none is drawn)")
    accuracy = actions.add_parser(
        "accuracy",
        help="accuracy of all finetunings",
        description="Print the accuracy of all finetunings by model and task, seeds together, with their time.",
    )
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="write the table there instead of printing")
    for reader in (table, figure, perplexity, accuracy):
        reader.add_argument("--runs", type=Path, default=_ROWS, metavar="FILE", help="rows (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked; returns the exit status."""
    try:
        _ACTIONS[arguments.action](arguments)
    except ResultsError as error:
        raise CommandError(str(error)) from None
    except OSError as error:  # that of a full disk names no file
        raise CommandError(f"{error.filename or arguments.out or 'stdout'}: {error.strerror or error}") from None
    return 0


def _collect(arguments: argparse.Namespace) -> None:
    found = collect(arguments.folders)
    for remark in found.left_out:
        _warn(f"left out: {remark}")
    for remark in found.remarks:
        _warn(remark)
    if not found.rows:
        where = ", ".join(map(str, arguments.folders))
        raise ResultsError(
            f"{where}: {'none of the runs there can be read' if found.left_out else 'no run folders (with a run.json)'}"
        )
    new, replaced = merge_rows(arguments.out, found.rows)
    finished = sum(row.finished for row in found.rows)
    print(
        f"{len(found.rows)} runs, {finished} of them finished, {len(found.left_out)} left out: "
        f"{new} new rows, {replaced} replaced in {arguments.out}"
    )


def _table2(arguments: argparse.Namespace) -> None:
    from linformer_fairseq.results import render
    from linformer_fairseq.results.table2 import table2

    _put(getattr(render, arguments.format)(*table2(read_rows(arguments.runs))), arguments.out)


def _figure3(arguments: argparse.Namespace) -> None:
    from linformer_fairseq.results.figure3 import figures

    found, remarks = figures(read_rows(arguments.runs))
    _draw(found, remarks, arguments.out or arguments.runs.parent)


def _perplexity(arguments: argparse.Namespace) -> None:
    from linformer_fairseq.results.perplexity import perplexity_figure, perplexity_table
    from linformer_fairseq.results.render import markdown

    rows = read_rows(arguments.runs)
    _put(markdown(*perplexity_table(rows)), arguments.out)
    if arguments.figure:
        figure, remarks = perplexity_figure(rows)
        _draw([figure], remarks, arguments.figure)


def _accuracy(arguments: argparse.Namespace) -> None:
    from linformer_fairseq.results.accuracy import accuracy_table
    from linformer_fairseq.results.render import markdown

    _put(markdown(*accuracy_table(read_rows(arguments.runs))), arguments.out)


def _put(text: str, path: Path | None) -> None:
    from linformer_fairseq.results.store import write_text

    if path:
        write_text(path, text)
        print(path)
    else:
        print(text, end="")


def _draw(figures: list[Figure], remarks: list[str], folder: Path) -> None:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq lets everybody tell everything
    try:
        from linformer_fairseq.results.drawing import draw
    except ModuleNotFoundError as error:
        raise CommandError(f"figures need {error.name}, which is not installed: pip install matplotlib") from None
    for remark in remarks:
        _warn(remark)
    for figure in figures:
        for path in draw(figure, folder):
            print(path)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


_ACTIONS = {
    "collect": _collect,
    "table2": _table2,
    "figure3": _figure3,
    "perplexity": _perplexity,
    "accuracy": _accuracy,
}
