"""The sections of the page in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from linformer_fairseq.report.learning import learning
from linformer_fairseq.report.limits import limits
from linformer_fairseq.report.page import html
from linformer_fairseq.report.quality import figure3, table2
from linformer_fairseq.report.rank import figure1, theorems
from linformer_fairseq.report.section import Part, Section
from linformer_fairseq.report.speed import figure2, table1, table3


class _Outline(NamedTuple):
    anchor: str
    title: str
    paper: str
    parts: Callable[[Path], Iterator[Part]]


_PLOTTED = "The paper draws curves and prints no numbers of them."

OUTLINE = (
    _Outline("table1", "Table 1: complexity", "The order of growth with n, for five architectures.", table1),
    _Outline(
        "table2",
        "Table 2: accuracy of finetuned models",
        "Models of 12 layers x 768, pretrained for 250,000 updates on 64 V100 GPUs. Its accuracies are in the table.",
        table2,
    ),
    _Outline(
        "table3",
        "Table 3: speed and memory",
        "Times faster, and times larger a batch, than a Transformer: 12 layers on one Tesla V100 with 16 GB. Its "
        "numbers are in round brackets.",
        table3,
    ),
    _Outline(
        "figure1",
        "Figure 1: singular values of attention",
        "Cumulative singular values of P in RoBERTa-base and RoBERTa-large, n = 512, on 10,000 sentences of "
        f"WikiText-103 and IMDB; a heat map of the sum of the first 128. {_PLOTTED}",
        figure1,
    ),
    _Outline(
        "figure2",
        "Figure 2: time by length",
        "Inference time against n for a Transformer and for Linformers with several k, all with equally many tokens. "
        f"{_PLOTTED}",
        figure2,
    ),
    _Outline(
        "figure3",
        "Figure 3: perplexity in pretraining",
        f"Validation perplexity over 250,000 updates in four panels: k, sharing and n are varied. {_PLOTTED}",
        figure3,
    ),
    _Outline(
        "theorems",
        "Theorems 1 and 2 in numbers",
        "P is approximately of low rank (Theorem 1), and k of the order of log n, or independent of n, is enough "
        "(Theorem 2). The ε that the proof of Theorem 1 promises for a k is beside the measured errors.",
        theorems,
    ),
    _Outline(
        "learning",
        "Learning",
        "no counterpart. These are small models with the paper's projection and with options that it does not have.",
        learning,
    ),
)


def page(results: Path) -> str:
    """The page on a folder of results, as HTML; equal results give an equal page.

    Raises:
        UserError: a file there is damaged; it is named.
        OSError: a figure cannot be read.
    """
    sections = [
        Section(anchor, title, f"**The paper:** {paper}", list(parts(results)))
        for anchor, title, paper, parts in OUTLINE
    ]
    about = "What separates these results from the paper's, and what its method does not do."
    sections.append(Section("limits", "Limits", about, list(limits(results, sections))))
    return html(sections, results)
