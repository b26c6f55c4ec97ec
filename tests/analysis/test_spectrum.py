"""`linformer analyse spectrum`: what it measures, and that it goes on after it was stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.analysis import sums
from linformer_fairseq.analysis.blocks import choose_blocks
from linformer_fairseq.analysis.encoder import Attention
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.analysis.spectrum import describe, values_at
from linformer_fairseq.core import parse_projected_dim
from linformer_fairseq.prediction.inputs import open_source
from tests.conversion.sources import N
from tests.models import make_pretrained

COUNT = 10


def analyse(model: Path, text: Path, out: Path, *words: object, status: int = 0) -> dict[str, Any]:
    given = ["--sentences", COUNT, "--device", "cpu", "--out", out, *words]
    assert cli.main(["analyse", "spectrum", str(model), str(text), *map(str, given)]) == status
    if status:
        return {}
    record: dict[str, Any] = json.loads((out / "spectrum.json").read_text())
    return record


def expected_curves(model: Path, text: Path) -> np.ndarray:
    """(L, H, n), one matrix at a time."""
    encoder = load_fairseq(model / "model.pt", model, torch.device("cpu"))
    with text.open("rb") as stream:
        rows = choose_blocks(open_source(text, stream, None, []), encoder, N, COUNT, 1).rows
    mean = np.zeros((2, 2, N))

    def see(layer: int, attention: Attention) -> None:
        for head in range(2):
            values = np.linalg.svd(attention.probabilities[0, head].double().numpy(), compute_uv=False)
            mean[layer, head] += np.cumsum(values) / values.sum() / COUNT

    for row in rows:
        encoder.attend(torch.from_numpy(row)[None], see)
    return mean


def test_means_controls_and_files(
    roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = analyse(roberta, sample, tmp_path, "--batch", 3)
    curves = np.array(record["curves_checkpoint"])
    expected = expected_curves(roberta, sample)
    np.testing.assert_allclose(curves, expected, atol=2e-5)
    needed = record["needed"]["checkpoint"]["0.9"]
    assert needed == ((expected < 0.9).sum(-1) + 1).tolist()
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if line.startswith("90 %: projected_dim="))
    assert parse_projected_dim(line.partition("=")[2]) == needed
    assert np.allclose(record["curves_uniform"], 1)
    assert record["logit_deviation"]["untrained"][0][0] < record["logit_deviation"]["checkpoint"][0][0]
    assert np.mean(record["curves_untrained"]) > curves.mean()  # almost uniform attention
    assert record["settings"]["sentences"] == COUNT and record["encoder"]["kind"] == "fairseq RoBERTa"
    figures = {f"spectrum_{what}.{kind}" for what in ("curves", "heat_map") for kind in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == {"spectrum.json", *figures}


@pytest.mark.slow
def test_a_stopped_run_goes_on(
    roberta: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = analyse(roberta, sample, tmp_path / "whole", "--batch", 2)
    attend, calls = FairseqEncoder.attend, 0

    def stopping(self: FairseqEncoder, *given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:  # five batches of the checkpoint are done, and two before training
            raise KeyboardInterrupt
        attend(self, *given)

    monkeypatch.setattr(FairseqEncoder, "attend", stopping)
    monkeypatch.setattr(sums, "SECONDS_BETWEEN_WRITES", 0.0)
    analyse(roberta, sample, tmp_path / "out", "--batch", 2, status=130)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"spectrum.partial.npz"}
    assert "linformer analyse spectrum: stopped; repeat" in capsys.readouterr().err
    analyse(roberta, sample, tmp_path / "out", "--seed", 2, status=1)
    assert "with seed 1, not 2" in capsys.readouterr().err
    edited = tmp_path / sample.name
    edited.write_text(sample.read_text().replace("e", "a"))
    analyse(roberta, edited, tmp_path / "out", status=1)
    assert "the data has changed" in capsys.readouterr().err
    found = analyse(roberta, sample, tmp_path / "out", "--batch", 3)
    assert calls == 8 + 2 + 1  # the other six blocks, three at a time; and one for the sizes of the control
    for name in whole:
        if name != "provenance":
            np.testing.assert_equal(found[name], whole[name]) if "curves" not in name else np.testing.assert_allclose(
                found[name], whole[name], atol=2e-5
            )
    analyse(roberta, sample, tmp_path / "out")  # a finished one is only drawn again
    assert calls == 11
    analyse(roberta, sample, tmp_path / "out", "--length", 20, status=1)
    assert "with length 24, not 20" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("given", [".", "inner/.."])
def test_a_folder_of_text_that_is_given_without_its_name(
    given: str, roberta: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts" / "inner").mkdir(parents=True)
    shutil.copy(sample, tmp_path / "texts")
    monkeypatch.chdir(tmp_path / "texts")
    record = analyse(roberta, Path(given), tmp_path / "out")
    assert record["settings"]["data"] == "texts" and " texts " in record["provenance"]["command"]


@pytest.mark.slow
def test_a_text_behind_a_link_is_part_of_the_data(
    roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts of a folder are read through links, and hidden files are not among them."""
    for name in ("texts", "linked"):
        (tmp_path / name).mkdir()
        shutil.copy(sample, tmp_path / name)
    (tmp_path / "texts" / "more").symlink_to(tmp_path / "linked")
    whole = analyse(roberta, tmp_path / "texts", tmp_path / "out")
    (tmp_path / "texts" / ".hidden").write_text("notes")
    assert analyse(roberta, tmp_path / "texts", tmp_path / "out") == whole
    (tmp_path / "linked" / sample.name).write_text(sample.read_text().replace("e", "a"))
    analyse(roberta, tmp_path / "texts", tmp_path / "out", status=1)
    assert "the data has changed" in capsys.readouterr().err


@pytest.mark.slow
def test_a_linformer(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_pretrained(tmp_path, n=128)
    record = analyse(tmp_path / "model", sample, tmp_path / "out", "--sentences", 2, "--index", 3)
    rows = len(record["curves_checkpoint"][0][0])
    assert record["encoder"]["is_dense"] is False and rows < record["settings"]["length"] == 128
    analyse(tmp_path / "model", sample, tmp_path / "new", "--sentences", 2, "--index", rows + 1, status=1)
    assert f"--index {rows + 1}: expected 1 to {rows}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()  # refused before any SVD


@pytest.mark.slow
def test_the_control_has_as_many_rows_as_each_head(sample: Path, tmp_path: Path) -> None:
    k = [[2, 8], [16, 4]]
    words = ["--projection", "linear", "--sharing", "none", "--projected-dim", str(k)]
    make_pretrained(tmp_path, *words)
    record = analyse(tmp_path / "model", sample, tmp_path / "out", "--sentences", 2)
    needed = np.array(record["needed"]["random_logits"]["0.99"])
    assert (needed <= k).all() and (needed >= np.array(k) - 1).all()
    assert (np.array(record["needed"]["checkpoint"]["0.99"]) <= k).all()


@pytest.mark.slow
def test_heads_with_another_k_have_a_quarter_of_their_own(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    k = [[4, 8], [16, 4]]
    make_pretrained(tmp_path, "--projection", "linear", "--sharing", "none", "--projected-dim", str(k))
    words = (tmp_path / "model", sample, tmp_path / "out", "--sentences", 2)
    record = analyse(*words)
    curves = np.array(record["curves_checkpoint"])
    expected = [[curves[layer, head, k[layer][head] // 4 - 1] for head in range(2)] for layer in range(2)]
    np.testing.assert_array_equal(values_at(record, "checkpoint", None), expected)
    assert "share of the largest quarter" in capsys.readouterr().out
    assert "(4 to 16 projected rows)" in describe(record)
    at = values_at(record, "random_logits", 6)
    assert np.isnan(at).tolist() == [[True, False], [False, True]]  # two heads have four singular values
    analyse(*words, "--index", 6)
    out = capsys.readouterr().out
    assert "nan" not in out and out.count(", 2 of 4 heads") == 3


def test_an_index_is_one_of_the_singular_values(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pretrained(tmp_path, "--projection", "linear", "--sharing", "none", "--projected-dim", "16")
    analyse(tmp_path / "model", sample, tmp_path / "out", "--length", 8, "--index", 9, status=1)
    assert "--index 9: expected 1 to 8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--length", "25"], "--length 25: expected 2 to 24"),
        (["--sentences", "100000"], "--sentences is 100,000"),
    ],
)
def test_values_out_of_range(
    words: list[str], message: str, roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analyse(roberta, sample, tmp_path / "out", *words, status=1)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_files(roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    analyse(roberta, tmp_path / "no.txt", tmp_path / "out", status=1)
    assert "no.txt: no such file or folder" in capsys.readouterr().err
    analyse(tmp_path / "no.pt", sample, tmp_path / "out", status=1)
    assert "no.pt: no such file or folder" in capsys.readouterr().err
    analyse(roberta, sample, sample, status=1)
    assert f"--out {sample}: is a file" in capsys.readouterr().err


def test_a_damaged_partial_file(
    roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spectrum.partial.npz").write_bytes(b"PK\3\4 no zip")
    analyse(roberta, sample, tmp_path, status=1)
    assert "spectrum.partial.npz: damaged" in capsys.readouterr().err
