"""A folder of results as small as it can be: two lengths, two layers, a few runs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from linformer_fairseq.analysis.spectrum import CURVES
from linformer_fairseq.analysis.theorem2 import METHODS
from linformer_fairseq.results.rows import Score, to_line
from tests.benchmarks.test_report import cell, result
from tests.results.examples import finetuned, model, row, scale

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
ORIGIN = {
    "command": "linformer analyse spectrum MODEL TEXT",
    "date": "2026-01-02 03:04 UTC",
    "commit": "feedbeef0123",
    "machine": "a small machine",
    "versions": {"torch": "2"},
}
SMALL = scale(layers=2, width=32, updates=20)


def spectrum(name: str = "tiny") -> dict[str, Any]:
    """The record of a model of two layers with two heads and four singular values."""
    curves = [[[0.4, 0.75, 0.9, 1.0], [0.5, 0.75, 0.95, 1.0]]] * 2
    return {
        "kind": "spectrum",
        "settings": {"model": name, "sentences": 3, "length": 4, "data": "some.txt"},
        "encoder": {"kind": "fairseq RoBERTa", "is_dense": True, "layers": 2, "heads": 2, "singular_values": 4},
        "available_blocks": 5,
        "provenance": ORIGIN,
        "needed": {one: {share: [[3, 2], [3, 2]] for share in ("0.9", "0.95", "0.99")} for one in CURVES},
        **{f"curves_{one}": curves for one in CURVES},
    }


def theory() -> dict[str, Any]:
    """The record of drawn inputs with n = 8 and k = 2 and 4."""
    checks: list[dict[str, Any]] = [
        {"check": "inner_products", "within_product": 0.215, "within_norms": 1.0},
        {"check": "output_zero", "frobenius": 0.056, "spectral": 0.336},
        {"check": "small_delta", "delta": 0.1, "exact_spread": 0.8, "spread": 0.2, "error": 1.5},
    ]
    products = [{"input": "drawn", "n": 8, "k": k, "error": 0.5, "expected": 0.6} for k in (2, 4)]
    return {
        "kind": "theory",
        "settings": {"model": None, "projected_dims": [2, 4]},
        "provenance": {**ORIGIN, "command": "linformer analyse theory"},
        "proofs": checks,
        "theorem1": [{**product, "epsilon_of_paper": None} for product in products],
        "theorem2": [
            {"input": "drawn", "n": 8, "k": k, "errors": dict.fromkeys(METHODS, error)}
            for k, error in ((2, 0.7), (4, 0.4))
        ],
        "trained": [],
        "approximations": [],
    }


def limits() -> dict[str, Any]:
    """As `linformer analyse limits` writes it, with one length and two shifts."""
    quality = {"masked": 30, "accuracy": 0.25, "perplexity": 66.625}
    return {
        "kind": "limits",
        "settings": {
            **{"model": "tiny", "sha256": "", "data": "text", "data_sha256": "", "length": 8, "lengths": [8]},
            **{"shifts": [0, 2], "sentences": 3, "seed": 1},
        },
        "encoder": {"kind": "Linformer", "is_dense": False, "max_positions": 8, "layers": 1, "heads": 2},
        "available_blocks": 5,
        "provenance": {**ORIGIN, "command": "linformer analyse limits MODEL TEXT"},
        "lengths": [{"length": 8, "rows": 4, **quality}],
        "shifts": [
            {"shift": shift, **{place: {**quality, "change": change} for place in ("inserted", "moved")}}
            for shift, change in ((0, 0.0), (2, 0.5))
        ],
    }


def insertion() -> dict[str, Any]:
    """As `linformer analyse insertion` writes it, with one s."""
    return {
        "kind": "insertion",
        "settings": {"model": "tiny", "data": "task", "split": "valid", "shifts": [2], "examples": 1000, "seed": 1},
        "encoder": {"kind": "Linformer", "is_dense": False, "max_positions": 8, "layers": 1, "heads": 2},
        "provenance": {**ORIGIN, "command": "linformer analyse insertion MODEL TASK"},
        **{"examples": 30, "fitting_examples": 40, "accuracy": 0.75},
        "shifts": [{"shift": 2, **{place: {"accuracy": 0.625, "changed": 0.375} for place in ("front", "behind")}}],
    }


def make(folder: Path) -> Path:
    """Write all of it, without figures; returns the folder."""
    cells = [cell("roberta_materialised", 512, None, 3.0, 4096), cell("linformer", 512, 128, 1.0, 1024)]
    cells.append(cell("roberta_sdpa_core", 512, None, 2.0, 2048))
    settings = {"device": "cpu", "projected_dims": [128], "positions": 512}
    for preset in ("table1", "table3", "figure2", "short"):
        _write(folder / f"efficiency/inference_{preset}.json", result(cells, preset=preset, **settings))
    _write(folder / "analysis/one/spectrum.json", spectrum())
    _write(folder / "analysis/two/theory.json", theory())
    _write(folder / "analysis/three/limits.json", limits())
    _write(folder / "analysis/four/insertion.json", insertion())
    small: dict[str, Any] = {"model": model(n=64, k=8, size=(2, 32)), "scale": SMALL}
    curve: dict[str, Any] = {"curve": [[10, 70.0], [20, 61.5]], "perplexity": Score(61.5, 61.5, 20)}
    pretraining = row("small_s1", figure3=["a"], updates=20, max_update=20, **curve, **small)
    lines = [pretraining, finetuned("sst2", 55.5, run="small_s1", **small)]
    for name in ("small", "learning/released"):
        path = folder / name / "runs.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(map(to_line, lines)))
    _write(folder / "learning/released/sst2.json", {"task": "sst2", "bag_of_words": 82.25, "majority": 50.5})
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def large(name: str = "large_s1") -> list[str]:
    """Lines of a pretraining and a finetuning of the paper's scale."""
    pretraining = row(name, figure3=["a", "b", "c", "d"], model=model(sharing="headwise"))
    return [
        to_line(pretraining),
        to_line(finetuned("sst2", 93.7, run=name, table2="Linformer, 128", model=model(sharing="headwise"))),
    ]
