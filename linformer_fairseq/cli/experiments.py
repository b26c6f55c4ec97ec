"""`linformer experiments list`: prints the experiments in configs/experiment, the runs of the paper, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.launch import compose, config_dir
from linformer_fairseq.planning import plan

HEAD = (
    "experiment",
    "n",
    "k",
    "sharing",
    "parameters",
    "sequences per update",
    "tokens per update",
    "tokens in all",
    "TFLOPs per update",
    "Figure 3",
    "Table 2",
)
_TEXTS = ("experiment", "sharing", "Figure 3", "Table 2")
"""Left-aligned columns."""


def run(arguments: argparse.Namespace) -> int:
    """Print the table and return the exit status."""
    table = rows(arguments.config_dir)
    for line in markdown(table) if arguments.format == "markdown" else text(table):
        print(line)
    return 0


def names(folder: Path | None = None) -> list[str]:
    """The names of the experiments.

    Raises:
        UserError: there are none.
    """
    place = (folder or config_dir()) / "experiment"
    found = sorted(path.stem for path in place.glob("*.yaml"))
    if not found:
        raise UserError(f"{place}: no experiments there; expected files NAME.yaml")
    return found


def rows(folder: Path | None = None) -> list[tuple[str, ...]]:
    """A table row for each experiment, sorted by n, model, k and sharing.

    Raises:
        UserError: there are no experiments, or one of them cannot be composed.
    """
    described = []
    for name in names(folder):
        try:
            described.append(_describe(name, compose("pretraining", [f"experiment={name}"], folder)))
        except (UserError, ValueError) as error:  # the latter: a model that planning does not know
            raise UserError(f"experiment {name}: {error}") from None
    return [row for _, row in sorted(described)]


def _describe(name: str, config: DictConfig) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The sort key of an experiment, and its row."""
    found = plan(config)
    settings, paper = found.sizes.settings, config.run.paper
    k = 0 if settings is None else settings.largest_dim
    row = (
        name,
        f"{found.sizes.n:,}",
        "-" if settings is None else str(settings.projected_dim),
        "-" if settings is None else settings.sharing,
        f"{found.parameters:,}",
        f"{found.sequences_per_update:,}",
        f"{found.tokens_per_update:,.0f}",
        f"{found.total_tokens:,.0f}",
        f"{found.flops_per_update / 1e12:,.1f}",
        ", ".join(paper.figure3),
        paper.table2 or "",
    )
    # more sharing means fewer parameters
    return (found.sizes.n, settings is not None, k, -found.parameters, name), row


def text(table: Sequence[tuple[str, ...]]) -> list[str]:
    """The table as lines of aligned text."""
    widths = [max(map(len, column)) for column in zip(HEAD, *table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if title in _TEXTS else cell.rjust(width)
            for title, cell, width in zip(HEAD, row, widths, strict=True)
        ).rstrip()
        for row in (HEAD, *table)
    ]


def markdown(table: Sequence[tuple[str, ...]]) -> list[str]:
    """The table as lines of Markdown."""
    left = [number for number, title in enumerate(HEAD) if title in _TEXTS]
    return markdown_table([HEAD, *((f"`{row[0]}`", *row[1:]) for row in table)], left)
