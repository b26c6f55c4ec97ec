"""Figure 1 of the paper and its theorems: what `linformer analyse` measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from linformer_fairseq.analysis import spectrum, theory
from linformer_fairseq.analysis.record import read_record
from linformer_fairseq.analysis.report import spectrum_section, theory_section
from linformer_fairseq.report.section import Missing, Part, recorded

_OF_PAPER = {12: "roberta.base", 24: "roberta.large"}
"""The models of Figure 1, by their layers; n = 512."""


def figure1(results: Path) -> Iterator[Part]:
    """Singular values of attention, for each model that was analysed."""
    found = set[tuple[str, int, int]]()

    def section(record: dict[str, Any], where: Path) -> Iterator[str]:
        if record["encoder"]["is_dense"] and record["encoder"]["kind"].endswith("RoBERTa"):
            name = Path(record["settings"]["model"]).name.replace("-", ".")
            found.add((name, record["encoder"]["layers"], record["settings"]["length"]))
        return spectrum_section(record, where)

    yield from recorded(results, spectrum.NAME, partial(read_record, kind="spectrum"), section)
    for layers, name in _OF_PAPER.items():
        if (name, layers, 512) not in found:
            out = f"{results.name}/analysis/{name.replace('.', '_')}"
            yield Missing(
                f"the paper's {name}, n = 512",
                f"linformer analyse spectrum {name} wiki.txt --sentences 10000 --out {out}",
            )


def theorems(results: Path) -> Iterator[Part]:
    """Errors of both theorems, beside what the proofs promise."""
    parts = list(recorded(results, theory.NAME, theory.read, theory_section))
    command = f"linformer analyse theory --out {results.name}/analysis/theory"
    yield from parts or [Missing("errors by n and k", command)]
