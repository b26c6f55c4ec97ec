"""Training in a bare loop and through fairseq's trainer."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.efficiency import bare, memory, operations
from benchmarks.efficiency.models.trainable import build_trainable
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.training import KEYS
from tests.benchmarks.conftest import TINY

TRAINING = ["training", "--tokens", "64", "--updates", "2", "--projected-dim", "4", *TINY]
SIZES = Sizes(layers=2, width=16, ffn=64, heads=2, vocabulary=90)


def test_a_bare_loop_with_torch_alone(tmp_path):
    out = tmp_path / "t.json"
    words = ["--lengths", "16", "32", "--models", "linformer_core", "roberta_sdpa_core", "--out", str(out)]
    assert main([*TRAINING, *words]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [(c["n"], c["model"], c["path"]) for c in cells] == [
        (n, model, "bare") for n in (16, 32) for model in ("linformer_core", "roberta_sdpa_core")
    ]
    for cell in cells:
        assert tuple(cell) == KEYS and cell["status"] == "ok" and cell["tokens"] == 64
        assert len(cell["all_seconds"]) == 2
        k = 4 if cell["model"] == "linformer_core" else None
        work = cell["batch"] * operations.training(SIZES, cell["n"], k, bare.masked_positions(cell["n"]))
        assert cell["operations"] == work
    assert main([*TRAINING, *words, "--resume"]) == 0
    assert json.loads(out.read_text())["cells"] == cells


def test_a_model_for_which_memory_does_not_suffice_is_a_cell_like_others(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 256 << 20)
    words = ["--lengths", "16", "--models", "linformer_core", "--out", str(tmp_path / "t.json")]
    assert main([*TRAINING, *words, "--vocabulary", "20000000"]) == 0  # 1.2 GiB of embeddings
    (found,) = json.loads((tmp_path / "t.json").read_text())["cells"]
    assert found["status"] == "out_of_memory" and "can't allocate memory" in found["reason"]


@pytest.mark.parametrize("name", ["linformer_core", "roberta_materialised", "linformer"])
def test_the_loop_learns(name):
    if name == "linformer":
        pytest.importorskip("fairseq")
    cpu = torch.device("cpu")
    model = build_trainable(name, SIZES, 16, None if name.startswith("roberta") else 4, 0.0, cpu)
    loop = bare.BareLoop(model, 4, 16, 90, "fused_adamw", torch.float32, cpu)
    for group in loop.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [float(loop.update()) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_mistakes_are_said_in_one_line(refused):
    assert "is for inference only" in refused(*TRAINING, "--models", "lucidrains") or not importlib.util.find_spec(
        "linformer"
    )
    core = ["--models", "linformer_core"]
    assert "k < n" in refused(*TRAINING, *core, "--lengths", "4")
    assert "--vocabulary 90" in refused(*TRAINING, *core, "--lengths", "100")
    assert "--updates" in refused(*TRAINING, *core, "--lengths", "16", "--updates", "1")


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--dtype", "bfloat16", "--optimizer", "fused_adamw"]], ids=str)
def test_both_ways_with_fairseq(tmp_path, more):
    pytest.importorskip("fairseq")
    out = tmp_path / "t.json"
    words = ["--lengths", "16", "--models", "linformer", "roberta_fairseq", "--out", str(out), *more]
    assert main([*TRAINING, *words]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [(cell["model"], cell["path"], cell["status"]) for cell in cells] == [
        (model, path, "ok") for path in ("bare", "trainer") for model in ("linformer", "roberta_fairseq")
    ]
    for cell in cells:
        assert len(cell["all_seconds"]) == 2
        assert (cell["times_bare"] is not None) == (cell["path"] == "trainer")
