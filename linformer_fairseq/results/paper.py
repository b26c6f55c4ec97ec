"""The paper's results: Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", arXiv 2006.04768 v3."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Wang et al. 2020, arXiv 2006.04768 v3"

# Section 5.1: RoBERTa-base's size, 250k updates on 64 V100 GPUs.
PAPER_LAYERS, PAPER_WIDTH, PAPER_UPDATES = 12, 768, 250_000

TASKS = {"sst2": "SST-2", "imdb": "IMDB", "qnli": "QNLI", "qqp": "QQP"}
"""The tasks of Table 2 in its order."""


@dataclass(frozen=True)
class PaperRow:
    """A row of Table 2: accuracy on the development sets, in percent."""

    n: int
    name: str
    """The name in run.paper.table2; rows of different n may have the same name."""
    scores: tuple[float, float, float, float]
    average: float
    k: int | None = None
    """None for models with dense attention."""
    sharing: str | None = None
    reproduced: bool = True
    """False for comparisons of the paper that this project does not run."""


TABLE2 = (
    PaperRow(512, "RoBERTa-base", (93.1, 94.1, 90.9, 90.9), 92.25),
    PaperRow(512, "Linformer, 128", (92.4, 94.0, 90.4, 90.2), 91.75, 128, "headwise"),
    PaperRow(512, "Linformer, 128, shared kv", (93.4, 93.4, 90.3, 90.3), 91.85, 128, "key_value"),
    PaperRow(512, "Linformer, 128, shared kv, layer", (93.2, 93.8, 90.1, 90.2), 91.83, 128, "layerwise"),
    PaperRow(512, "Linformer, 256", (93.2, 94.0, 90.6, 90.5), 92.08, 256, "headwise"),
    PaperRow(512, "Linformer, 256, shared kv", (93.3, 93.6, 90.6, 90.6), 92.03, 256, "key_value"),
    PaperRow(512, "Linformer, 256, shared kv, layer", (93.1, 94.1, 91.2, 90.8), 92.30, 256, "layerwise"),
    PaperRow(512, "BERT-base", (92.7, 93.5, 91.8, 89.6), 91.90, reproduced=False),
    PaperRow(512, "Distilled BERT", (91.3, 92.8, 89.2, 88.5), 90.45, reproduced=False),
    PaperRow(1024, "Linformer, 256", (93.0, 93.8, 90.4, 90.4), 91.90, 256, "headwise"),
    PaperRow(1024, "Linformer, 256, shared kv", (93.0, 93.6, 90.3, 90.4), 91.83, 256, "key_value"),
    PaperRow(1024, "Linformer, 256, shared kv, layer", (93.2, 94.2, 90.8, 90.5), 92.18, 256, "layerwise"),
)

TABLE2_NOTES = (
    "The paper's RoBERTa-base (Liu et al. 2019) is pretrained on the corpus of BERT.",
    '"Linformer, k" without "shared" is headwise sharing in our reading: section 5.2 calls the three kinds of rows '
    "the three sharing strategies, which section 4 lists as headwise, key-value and layerwise.",
)

PANELS = {
    "a": ("k varied", "n = 512", 4),
    "b": ("k varied", "n = 1024", 4),
    "c": ("sharing varied", "n = 512", 5),
    "d": ("n varied", "k = 256", 4),
}
"""The panels of Figure 3: what is varied in each, what is fixed in the paper, and the number of models."""

SHARINGS = ("none", "headwise", "key_value", "layerwise")
"""Modes of sharing, from no shared projection to one for all layers."""
