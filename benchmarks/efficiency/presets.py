"""Presets of options: the paper's measurements, and short inputs. Options on the command line take precedence."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.efficiency.models.registry import MODELS
from linformer_fairseq.files.errors import UserError

DOUBLED = [512 * 2**step for step in range(8)]
"""512 to 65,536: the lengths of Table 3 and Figure 2."""
MILLION = 2**20
LONG = 8192
"""Inputs with more positions have --long-rounds rounds, because a pass takes long."""

OURS = ["linformer", "linformer_compiled", "linformer_convolution"]
FORMS = ["roberta_sdpa_core", "roberta_sdpa_core_blocks"]
"""The forms of the dense rival: our layer with n x n attention, in one piece and in our blocks."""
DENSE_RIVALS = [*FORMS, "roberta_hf", "roberta_fairseq"]
"""The baselines that a Linformer has to be compared with."""

INFERENCE: dict[str, dict[str, Any]] = {
    "table1": {
        "lengths": DOUBLED[:6],
        "projected_dims": [128],
        "models": [
            *("linformer_core", "linformer_core_mean_pool", "performer", "nystrom", "recurrent"),
            *(*FORMS, "roberta_materialised"),
        ],
        "tokens": DOUBLED[0],  # one sequence of each length
        "max_seconds": 600.0,
    },
    "table3": {
        "lengths": DOUBLED,
        "projected_dims": [128, 256, 512, 1024, 2048],
        "models": ["linformer", *DENSE_RIVALS, "roberta_materialised"],
        "long_rounds": 3,
        "max_seconds": 900.0,
    },
    "figure2": {
        "lengths": DOUBLED,
        "projected_dims": [128],
        "models": [
            *(*OURS, *DENSE_RIVALS, "roberta_sdpa_core_compiled"),
            *("fairseq_linformer", "lucidrains", "linformer_pytorch"),
        ],
        "max_seconds": 900.0,
    },
    "short": {
        "lengths": [16, 28, 64, 128, 256],
        "positions": 512,
        "projected_dims": [128, 256],
        "models": ["linformer", "linformer_convolution", *DENSE_RIVALS],
        "tokens": 4096,
        "batches": [32],
        "padded": "both",
    },
    "long": {
        "lengths": [MILLION],
        "projected_dims": [256],
        "models": ["linformer", "linformer_core", "roberta_sdpa_core"],
        "tokens": MILLION,
        "dtype": "bfloat16",
        "max_seconds": 600.0,
        "long_rounds": 3,
    },
}
INFERENCE_DEFAULTS: dict[str, Any] = {
    "lengths": [512, 1024, 2048, 4096],
    "projected_dims": [128],
    "models": [name for name, known in MODELS.items() if not known.recomputes],
    "tokens": 16384,
    "dtype": "float32",
    "positions": None,
    "batches": [],
    "padded": "no",
    "max_seconds": 60.0,
    "rounds": 5,
    "long_rounds": 5,
}

TRAINED = ["linformer", "linformer_convolution", *FORMS, "roberta_fairseq"]
"""Default models of `training`."""
TRAINING: dict[str, dict[str, Any]] = {
    "short": {"lengths": [16, 28, 64, 128, 256], "positions": 512, "projected_dims": [128, 256], "padded": True},
}
TRAINING_DEFAULTS: dict[str, Any] = {"lengths": [512], "positions": None, "projected_dims": [128], "padded": False}


def fill_inference(args: argparse.Namespace) -> None:
    """Set the options of `inference` that are None from its preset and defaults.

    Raises:
        UserError: a million tokens on a CPU.
    """
    if args.preset == "long" and args.lengths is None and args.device == "cpu":
        raise UserError("--preset long is one forward pass over 1,048,576 tokens; it needs --device cuda")
    if args.long_rounds is None:
        args.long_rounds = args.rounds
    _fill(args, INFERENCE_DEFAULTS | INFERENCE.get(args.preset or "", {}))


def fill_training(args: argparse.Namespace) -> None:
    """Set the options of `training` that are None from its preset and defaults."""
    _fill(args, TRAINING_DEFAULTS | TRAINING.get(args.preset or "", {}))


def _fill(args: argparse.Namespace, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
