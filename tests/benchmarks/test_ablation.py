"""What is compared must be the same layer, done differently."""

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.efficiency.ablation import VARIANTS
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_computes_the_same(name):
    torch.manual_seed(1)
    settings = LinformerSettings(24, 3, 1, 16, 4)
    layer = LinformerEncoderLayer(settings, 0, build_shared_projection(settings), ffn_dim=40)
    x = torch.randn(3, 16, 24)
    whole = layer(x)
    with torch.no_grad(), VARIANTS[name](layer):
        torch.testing.assert_close(layer(x), whole)
    torch.testing.assert_close(layer(x), whole)


@pytest.mark.slow
def test_the_program_prints_a_line_for_each(capsys):
    assert main(["ablation", "--n", "32", "--projected-dim", "8", "--tokens", "64", "--rounds", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + len(VARIANTS)
    assert said[1].startswith("as it is")
