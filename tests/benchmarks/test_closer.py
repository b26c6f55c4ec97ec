"""Profile of a layer, steps of optimizers, padding of batches: from the program to the table."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from benchmarks.__main__ import main
from benchmarks.efficiency import profile, readme
from benchmarks.efficiency.one_layer import Pass
from linformer_fairseq.files.dictionary import EOS, FIRST
from tests.benchmarks.conftest import TINY
from tests.binarised import write_task


def test_the_profile_adds_up(tmp_path):
    out = tmp_path / "efficiency" / "profile_x.json"
    words = ["--lengths", "32", "--projected-dim", "8", "--tokens", "64", "--rounds", "2", "--threads", "1"]
    assert main(["profile", *words, "--dtype", "bfloat16", "--out", str(out)]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [cell["layer"] for cell in cells] == ["ours", "dense"]
    for cell in cells:
        assert sum(cell["shares"].values()) == pytest.approx(1)
        assert {"matrix products", "attention", "GELU", "layer norms", "sums"} <= set(cell["shares"])
    assert "| matrix products | " in "\n".join(readme.of_kind("profile", tmp_path))
    assert readme.of_kind("ablation", tmp_path) == []


def test_time_goes_to_the_operation_that_took_it():
    class Products(nn.Module):
        def forward(self, x, padding=None):
            return x @ x.transpose(1, 2) @ x

    shares = profile.shares(Pass(Products(), 512, 2048, torch.float32, torch.device("cpu"), False))
    assert max(shares, key=lambda name: shares[name]) == "matrix products" and "GELU" not in shares


def test_the_profile_is_of_a_cpu(refused):
    assert "--device cuda: only a CPU" in refused("profile", "--device", "cuda")


@pytest.mark.usefixtures("fairseq")
def test_steps_of_both_optimizers(tmp_path):
    out = tmp_path / "efficiency" / "optimizer.json"
    assert main(["optimizer", "--rounds", "2", "--threads", "1", *TINY, "--out", str(out)]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [cell["optimizer"] for cell in cells] == ["adam", "fused_adamw"]
    assert cells[0]["times_faster"] == 1 and all(len(cell["all_seconds"]) == 2 for cell in cells)
    assert "| `fused_adamw` | " in "\n".join(readme.of_kind("optimizer", tmp_path))


@pytest.mark.usefixtures("fairseq")
def test_padding_by_window(tmp_path, refused):
    assert "has no input0/dict.txt" in refused("padding", str(tmp_path))
    task = _task(tmp_path / "some")
    assert "expected folders of different names" in refused("padding", str(task), str(task))
    out = tmp_path / "efficiency" / "padding.json"
    words = [str(task), "--batch-size", "2", "--windows", "0", "64", "--out", str(out)]
    assert main(["padding", *words]) == 0
    by_chance, by_length = json.loads(out.read_text())["cells"]
    # 8 sentences of 4 positions and 8 of 12, in pairs: a pair of both kinds has 8 of 24 positions as padding
    assert 0 <= by_length["padding"] < by_chance["padding"] < 1 / 3
    assert by_chance["examples"] == 16 and by_chance["tokens"] == 8 * 4 + 8 * 12
    assert "| some | 16 | " in "\n".join(readme.of_kind("padding", tmp_path))


def _task(folder):
    """A task of 16 sentences, half of them with 3 words and half with 11; each gets a symbol in front."""
    texts = [[FIRST] * (length - 1) + [EOS] for length in [3, 11] * 8]
    return write_task(folder, ("0", "1"), {"train": [(text, 0) for text in texts]}, words=1)
