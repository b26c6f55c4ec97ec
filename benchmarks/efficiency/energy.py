"""`linformer benchmark energy`: energy of inference, estimated from measured speed and a power that the user gives.

Energy is power x time: a device that takes W watts and computes v tokens per second takes W 10^6 / v joules for a
million tokens. This assumes that the power is constant while a model computes, and the same for all models. No meter is
read.
"""

from __future__ import annotations

import argparse
import math

from benchmarks.efficiency import tables
from benchmarks.efficiency.cells import DENSE_FORMS, Result, best_of, by_length_alone, cell_of, faster, label, number
from benchmarks.efficiency.store import read
from benchmarks.measuring import said
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table

LENGTHS = (512, 4096, 16384)
WATTS = 100.0
"""The power in the tables of the documentation; figures for another one are in proportion."""
_OURS, _DEFAULT = "linformer", "linformer_convolution"


def run(args: argparse.Namespace) -> int:
    """Print a table for each measurement of Figure 2; returns the exit status.

    Raises:
        UserError: the power is out of range, or nothing was measured.
    """
    if not 0 < args.watts < math.inf:
        raise UserError(f"--watts {args.watts:g}: expected the power of the device under load, more than 0")
    results = [read(path) for path in sorted(args.results.glob("inference*.json"))]
    found = [one for one in results if one["settings"].get("preset") == "figure2" and by_length_alone(one)]
    if not found:
        raise UserError(
            f"{args.results}: no speeds by length there; `linformer benchmark inference --preset figure2` measures them"
        )
    print("\n\n".join("\n".join(energy_table(result, args.watts)) for result in found))
    return 0


def energy_table(result: Result, watts: float) -> list[str]:
    """Joules for a million tokens of our models and of the dense rival, by length, and their ratio."""
    measured = sorted({cell["length"] for cell in result["cells"]})
    lengths = [n for n in measured if n in LENGTHS] or measured
    ours = [cell_of(result, model=_OURS, length=n, status="ok") for n in lengths]
    joules = [1e6 * watts / cell["tokens_per_second"] if cell else None for cell in ours]
    rows = [["J per million tokens", *(f"n = {n:,}" for n in lengths)], [label(_OURS), *map(number, joules)]]
    for name, models in ((label(_DEFAULT), (_DEFAULT,)), ("dense rival", tuple(DENSE_FORMS))):
        ratios = [faster(best_of(models, result, cell), cell) for cell in ours]
        pairs = zip(joules, ratios, strict=True)
        rows.append([name, *(number(one * ratio if one and ratio else None) for one, ratio in pairs)])
    rows.append([f"dense rival / {label(_OURS)}", *map(number, ratios)])
    return [
        f"Estimated, not measured: {watts:g} W x 1,000,000 / (tokens per second), as if the power were constant while "
        f"a model computes, and the same for all. The tokens per second are those of {label(_OURS)!r}, "
        f"{tables.size_of(result)}, on {result['provenance']['hardware']}; the other rows follow from the ratios of "
        "the times, medians over the rounds, which do not depend on the power.",
        "",
        *markdown_table(rows),
        "",
        f"({said(result['provenance'])})",
    ]
