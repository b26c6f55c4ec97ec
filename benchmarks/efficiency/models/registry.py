"""Every model by its name. This module does not import torch; `build` builds the models."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from linformer_fairseq.files.errors import UserError, nearest

FAIRSEQ, HUGGING_FACE, LUCIDRAINS, PYTORCH_PEER = "fairseq", "transformers", "linformer", "linformer_pytorch"
DISTRIBUTIONS = {
    FAIRSEQ: "fairseq-fixed",
    HUGGING_FACE: "transformers",
    LUCIDRAINS: "linformer",
    PYTORCH_PEER: "linformer-pytorch",
}
"""Name on PyPI of each package that a model may need."""


@dataclass(frozen=True)
class Known:
    """A model that can be built."""

    function: str
    """MODULE:NAME in this folder; called with Sizes, n, k."""
    label: str
    """For tables and plots."""
    needs: str = ""
    """The package that it needs in addition to torch."""
    projects: bool = True
    """Whether it has a k: projected rows of a Linformer, features of Performer, landmarks of Nystrom attention."""
    stores: bool = False
    """Whether it stores the attention probabilities."""
    compiled: bool = False
    """Whether its first passes compile."""
    recomputes: bool = False
    """Whether it recomputes activations in the backward pass; its forward pass without gradients is that of another."""
    trains: bool = True
    """Whether `training` can measure it."""
    projection: str = "linear"
    """Projection of a Linformer, on which the other defaults of our model depend; other attention by its name in
    `operations`."""


MODELS: dict[str, Known] = {  # in the order of the tables
    "linformer": Known("ours:linformer", "ours", FAIRSEQ),
    "linformer_compiled": Known("ours:linformer_compiled", "ours, compiled", FAIRSEQ, compiled=True),
    "linformer_convolution": Known(
        "ours:linformer_convolution", "ours, default projection", FAIRSEQ, projection="convolution"
    ),
    "linformer_recomputed": Known("ours:linformer_recomputed", "ours, recomputing", FAIRSEQ, recomputes=True),
    "linformer_core": Known("ours:CoreLinformer", "ours, no fairseq"),
    "linformer_core_compiled": Known("ours:linformer_core_compiled", "ours, no fairseq, compiled", compiled=True),
    "linformer_core_convolution": Known(
        "ours:linformer_core_convolution", "ours, no fairseq, default projection", projection="convolution"
    ),
    "linformer_core_mean_pool": Known(
        "ours:linformer_core_mean_pool", "ours, no fairseq, mean pooling", projection="mean_pool"
    ),
    "performer": Known("performer:performer", "Performer, our layer", trains=False, projection="performer"),
    "nystrom": Known("nystrom:nystrom", "Nystrom, our layer", trains=False, projection="nystrom"),
    "recurrent": Known("recurrent:recurrent", "LSTM", projects=False, trains=False, projection="recurrent"),
    "roberta_sdpa_core": Known("plain:sdpa", "dense rival", projects=False),
    "roberta_sdpa_core_blocks": Known("blocks:sdpa_in_blocks", "dense rival in blocks", projects=False),
    "roberta_sdpa_core_compiled": Known("plain:sdpa_compiled", "dense rival, compiled", projects=False, compiled=True),
    "roberta_hf": Known("peers:hugging_face", "Hugging Face's RoBERTa", HUGGING_FACE, projects=False, trains=False),
    "roberta_fairseq": Known("fairseq_own:roberta", "fairseq's RoBERTa", FAIRSEQ, projects=False),
    "roberta_materialised": Known("plain:materialised", "Transformer, P stored", projects=False, stores=True),
    "fairseq_linformer": Known("fairseq_own:linformer", "fairseq's example", FAIRSEQ, stores=True, trains=False),
    "lucidrains": Known("peers:lucidrains", "linformer (PyPI)", LUCIDRAINS, stores=True, trains=False),
    "linformer_pytorch": Known(
        "peers:linformer_pytorch", "linformer-pytorch (PyPI)", PYTORCH_PEER, stores=True, trains=False
    ),
}
TRAINABLE = [name for name, known in MODELS.items() if known.trains]


def check_names(names: Sequence[str]) -> None:
    """Check the names that a user gave.

    Raises:
        UserError: one is unknown, or the package that it needs is not installed.
    """
    for name in names:
        if name not in MODELS:
            raise UserError(f"there is no model {name!r}; expected some of {', '.join(MODELS)}{nearest(name, MODELS)}")
        if reason := missing(name):
            there = ", ".join(other for other in MODELS if not missing(other))
            raise UserError(f"model {name}: {reason}; expected some of {there}")


def missing(name: str) -> str:
    """Why a model cannot be built here; empty if it can."""
    needs = MODELS[name].needs
    if not needs:
        return ""
    if importlib.util.find_spec(needs) is None:
        return f"{DISTRIBUTIONS[needs]} is not installed"
    if name == "fairseq_linformer" and importlib.util.find_spec("fairseq.examples.linformer") is None:
        return "the installed fairseq does not have examples/linformer"
    return ""
