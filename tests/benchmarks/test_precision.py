"""Precision: every form of a finetuned model classifies the same examples, and the accuracies are those of evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from benchmarks.__main__ import main
from benchmarks.efficiency import readme
from linformer_fairseq import cli
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.models import write_checkpoint
from tests.prepared_task import qqp

FORMS = [
    *("torch, float32", "torch, bfloat16", "torch, int8", "torch, float32, compiled"),
    *("ONNX Runtime, float32", "ONNX Runtime, int8"),
]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small checkpoint, and the data of its task."""
    folder = tmp_path_factory.mktemp("precision")
    data = qqp(folder / "data", make_sentencepiece(folder / "tokenizer"))
    return write_checkpoint(data, folder / "model.pt"), data


@pytest.mark.slow
def test_every_form_on_the_same_examples(task, tmp_path, refused):
    checkpoint, data = map(str, task)
    out, scores = tmp_path / "efficiency" / "precision.json", tmp_path / "scores.json"
    words = ["precision", checkpoint, data, "--rounds", "2", "--batch-size", "3", "--out", str(out)]
    assert main(words) == 0
    found = json.loads(out.read_text())
    cells = {cell["program"]: cell for cell in found["cells"]}
    assert list(cells) == FORMS
    assert cli.main(["evaluate", checkpoint, data, "--device", "cpu", "--results", str(scores)]) == 0
    evaluated = json.loads(scores.read_text())
    assert cells["torch, float32"]["accuracy"] == pytest.approx(evaluated["scores"]["accuracy"])
    assert found["settings"]["examples"] == evaluated["examples"]
    for name in ("torch, float32, compiled", "ONNX Runtime, float32"):
        assert cells[name]["other_labels"] == 0, name
    base = cells["torch, float32"]["all_seconds"]
    for cell in cells.values():
        ratios = [b / a for a, b in zip(cell["all_seconds"], base, strict=True)]
        assert cell["times_as_fast"] == pytest.approx(sum(ratios) / 2)
    shown = "\n".join(readme.of_kind("precision", tmp_path))
    assert all(f"| {name} | " in shown for name in FORMS)
    assert "already exists" in refused(*words)


def test_what_cannot_be_measured_is_refused(task, tmp_path, refused):
    checkpoint, data = map(str, task)
    assert "no.pt" in refused("precision", str(tmp_path / "no.pt"), data)
    assert "nothing" in refused("precision", checkpoint, str(tmp_path / "nothing"))
