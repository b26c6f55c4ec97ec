"""The paper's measurements, and short inputs, as names; a preset fills in what the command line leaves open."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.efficiency.models.registry import MODELS
from linformer_fairseq.files.errors import UserError

DOUBLED = [512 * 2**step for step in range(8)]
"""512 to 65,536: the lengths of Table 3 and Figure 2."""
LONG = 2**20

OURS = ["linformer", "linformer_compiled", "linformer_convolution"]
DENSE = ["roberta_sdpa_core", "roberta_sdpa_core_blocks", "roberta_hf", "roberta_fairseq"]
"""What a Linformer has to be held against."""

PRESETS: dict[str, dict[str, Any]] = {
    "table3": {
        "lengths": DOUBLED,
        "projected_dims": [128, 256, 512, 1024, 2048],
        "models": ["linformer", *DENSE, "roberta_materialised"],
        "long_rounds": 3,
        "max_seconds": 900.0,
    },
    "figure2": {
        "lengths": DOUBLED,
        "projected_dims": [128],
        "models": [*OURS, *DENSE, "roberta_sdpa_core_compiled", "fairseq_linformer", "lucidrains", "linformer_pytorch"],
        "max_seconds": 900.0,
    },
    "short": {
        "lengths": [16, 28, 64, 128, 256],
        "positions": 512,
        "projected_dims": [128, 256],
        "models": ["linformer", "linformer_convolution", *DENSE],
        "tokens": 4096,
        "batches": [32],
        "padded": "both",
    },
    "long": {
        "lengths": [LONG],
        "projected_dims": [256],
        "models": ["linformer", "linformer_core", "roberta_sdpa_core"],
        "tokens": LONG,
        "dtype": "bfloat16",
        "baseline": "roberta_sdpa_core",
        "max_seconds": 600.0,
        "long_rounds": 3,
    },
}
DEFAULTS: dict[str, Any] = {
    "lengths": [512, 1024, 2048, 4096],
    "projected_dims": [128],
    "models": list(MODELS),
    "tokens": 16384,
    "dtype": "float32",
    "baseline": "roberta_sdpa_core",
    "positions": None,
    "batches": [],
    "padded": "no",
    "max_seconds": 60.0,
    "rounds": 5,
    "long_rounds": 5,
}


def fill(args: argparse.Namespace) -> None:
    """Set what is None by the preset and then by the defaults.

    Raises:
        UserError: a million tokens on a CPU.
    """
    if args.preset == "long" and args.lengths is None and args.device == "cpu":
        raise UserError("--preset long is one forward pass over 1,048,576 tokens; it needs --device cuda")
    if args.long_rounds is None:
        args.long_rounds = args.rounds
    for name, value in (DEFAULTS | PRESETS.get(args.preset or "", {})).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
