"""What the other sections do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from linformer_fairseq.analysis import insertion
from linformer_fairseq.analysis.insertion_report import insertion_section
from linformer_fairseq.analysis.limits import NAME
from linformer_fairseq.analysis.limits_report import limits_section
from linformer_fairseq.analysis.record import read_record
from linformer_fairseq.report.learning import STUDIES
from linformer_fairseq.report.rows import OF_PAPER, read_files
from linformer_fairseq.report.section import Missing, Part, Section, recorded
from linformer_fairseq.report.speed import energy, short_inputs
from linformer_fairseq.results.paper import PAPER_LAYERS, PAPER_UPDATES, PAPER_WIDTH


def limits(results: Path, others: Sequence[Section]) -> Iterator[Part]:
    """The scale of our runs, what predictions depend on, what is missing in the other sections, and short inputs."""
    names = [*OF_PAPER, *(study.rows for study in STUDIES)]
    rows = [row for found in read_files(results, names).values() for row in found]
    large = sum(row.scale.paper for row in rows)
    yield (
        f"### Scale\n\n{large} of our {len(rows)} runs have the paper's scale: {PAPER_LAYERS} layers x {PAPER_WIDTH}, "
        f"{PAPER_UPDATES:,} updates. What separates small models after few updates need not separate large ones.\n"
    )
    yield (
        "### The method\n\nProjected rows are mixtures of tokens, so the attention cannot be causal: these are "
        "encoders. n is fixed when a model is built. What the projection saves grows with n; for short inputs it may "
        "cost more (tables below).\n"
    )
    command = f"linformer analyse limits linformer-small wiki.txt --out {results.name}/analysis/limits_linformer_small"
    measured = list(recorded(results, NAME, partial(read_record, kind="limits"), limits_section))
    yield from measured or [Missing("predictions by length and position", command)]
    command = f"linformer analyse insertion RUN work/imdb --out {results.name}/analysis/insertion_imdb"
    inserted = list(recorded(results, insertion.NAME, partial(read_record, kind="insertion"), insertion_section))
    yield from inserted or [Missing("classes with tokens in front of the text", command)]
    yield "### Missing in the sections above\n"
    missing = [(section, part) for section in others for part in section.missing]
    yield from (f"- [{section.title}](#{section.anchor}): {part.what}" for section, part in missing)
    yield "" if missing else "Nothing."
    yield "\n### Short inputs"
    yield from short_inputs(results)
    yield "\n### Energy"
    yield from energy(results)
