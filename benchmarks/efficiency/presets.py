"""The paper's measurements as names; a preset fills in what the command line leaves open."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.efficiency.errors import BenchmarkError
from benchmarks.efficiency.models.registry import MODELS

DOUBLED = [512 * 2**step for step in range(8)]
"""512 to 65,536: the lengths of Table 3 and Figure 2."""
LONG = 2**20

PRESETS: dict[str, dict[str, Any]] = {
    "table3": {
        "lengths": DOUBLED,
        "projected_dims": [128, 256, 512, 1024, 2048],
        "models": ["roberta_materialised", "linformer", "roberta_fairseq"],
    },
    "figure2": {"lengths": DOUBLED, "projected_dims": [128], "models": list(MODELS)},
    "long": {
        "lengths": [LONG],
        "projected_dims": [256],
        "models": ["linformer", "linformer_core", "roberta_sdpa_core"],
        "tokens": LONG,
        "dtype": "bfloat16",
        "baseline": "roberta_sdpa_core",
        "max_seconds": 600.0,
        "rounds": 2,
    },
}
DEFAULTS: dict[str, Any] = {
    "lengths": [512, 1024, 2048, 4096],
    "projected_dims": [128],
    "models": list(MODELS),
    "tokens": 16384,
    "dtype": "float32",
    "baseline": "roberta_materialised",
    "max_seconds": 60.0,
    "rounds": 5,
}


def fill(args: argparse.Namespace) -> None:
    """Set what is None by the preset and then by the defaults.

    Raises:
        BenchmarkError: a million tokens on a CPU.
    """
    if args.preset == "long" and args.lengths is None and args.device == "cpu":
        raise BenchmarkError("--preset long is one forward pass over 1,048,576 tokens; it needs --device cuda")
    for name, value in (DEFAULTS | PRESETS.get(args.preset or "", {})).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
