"""What is compared must be the same layer, done differently."""

import json

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.efficiency import ablation
from benchmarks.efficiency.ablation import AS_IT_IS, INFERENCE, OTHER_MODELS, TRAINING, VARIANTS, table
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection

SMALL = ["--lengths", "16", "32", "--projected-dim", "8", "--tokens", "64", "--rounds", "2", "--threads", "1"]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_computes_the_same_but_other_models(name):
    torch.manual_seed(1)
    settings = LinformerSettings(24, 3, 1, 16, 4, projection="linear")
    layer = LinformerEncoderLayer(settings, 0, build_shared_projection(settings), ffn_dim=40).eval()
    x = torch.randn(600, 16, 24)  # more positions than the largest block; none are in training mode
    whole = layer(x)
    with torch.set_grad_enabled(name in TRAINING), VARIANTS[name](layer):
        if name in OTHER_MODELS:
            assert layer.self_attn.settings != settings
        else:
            torch.testing.assert_close(layer(x), whole)
    assert layer.self_attn.settings == settings
    torch.testing.assert_close(layer(x), whole)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_the_file_has_a_cell_and_the_table_a_row_for_each(tmp_path, training):
    out = tmp_path / "a.json"
    assert main(["ablation", *SMALL, "--out", str(out), *(["--training"] if training else [])]) == 0
    result = json.loads(out.read_text())
    names = [name for name in VARIANTS if name not in (INFERENCE if training else TRAINING)]
    assert [(cell["n"], cell["variant"]) for cell in result["cells"]] == [(n, name) for n in (16, 32) for name in names]
    for cell in result["cells"]:
        assert len(cell["all_seconds"]) == 2 and cell["seconds"] > 0
        assert (cell["times_as_long"] == 1) == (cell["variant"] == AS_IT_IS)
    assert result["kind"] == "ablation" and result["provenance"]["commit"]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table(result) if line.startswith("| ")]
    assert rows[2:] == names


def test_mistakes_are_said_in_one_line(refused, tmp_path):
    assert "--projected-dim" in refused("ablation", "--lengths", "128")
    (tmp_path / "a.json").write_text("{}")
    said = refused("ablation", *SMALL, "--out", str(tmp_path / "a.json"))
    assert "already exists" in said and "--resume" not in said


def test_an_interrupted_measurement_leaves_no_file(tmp_path, monkeypatch):
    def cells(args, n, dtype, device):
        if n == 32:
            raise KeyboardInterrupt
        return [{"n": n}]

    monkeypatch.setattr(ablation, "_cells", cells)
    assert main(["ablation", *SMALL, "--out", str(tmp_path / "a.json")]) == 130
    assert list(tmp_path.iterdir()) == []
