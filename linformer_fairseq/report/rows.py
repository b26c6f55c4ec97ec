"""Rows of runs, by the file that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.store import read_rows

OF_PAPER = {"runs.jsonl": "linformer results collect", "small/runs.jsonl": "scripts/reproduce_small.sh"}
"""Files with runs in the form of the paper's Table 2 and Figure 3, and what makes them."""

PRETRAIN = """linformer experiments list
linformer pretrain experiment=NAME task.data=work/bin run_config=slurm"""
"""Commands that make a run of the paper's scale; the list says which row and panels it is for."""


def read_files(results: Path, names: Iterable[str]) -> dict[str, list[Row]]:
    """The rows of those files that exist, by their names.

    Raises:
        UserError: a file is damaged.
    """
    return {name: read_rows(results / name) for name in names if (results / name).is_file()}


def origin(results: Path, name: str, command: str) -> str:
    """A line of Markdown: what makes the rows of a table, where they are, and the pages that describe them, if any."""
    pages = [folder / "README.md" for folder in Path(name).parents]
    there = " and ".join(f"{results.name}/{page}" for page in pages if (results / page).is_file())
    return f"(`{command}`; rows: {results.name}/{name}{'; more in ' * bool(there)}{there})"
