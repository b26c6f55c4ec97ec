"""The theorems in numbers: formulas against draws, checks of the proofs, `linformer analyse theory`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.analysis import proofs, theory
from linformer_fairseq.analysis.blocks import choose_blocks
from linformer_fairseq.analysis.fairseq_encoder import load_fairseq
from linformer_fairseq.analysis.theorem1 import epsilon_of_paper, product_errors, rows_of_paper
from linformer_fairseq.analysis.theorem2 import METHODS, Sample, attention, errors, fit_values, window_means
from linformer_fairseq.core.reference import dense_attention
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.prediction.inputs import open_source
from tests.messages import says
from tests.models import make_pretrained


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator())


def test_k_of_the_paper_and_back() -> None:
    assert rows_of_paper(0.5, 512) == 250
    epsilon = epsilon_of_paper(250, 512)
    assert epsilon is not None and epsilon == pytest.approx(0.5, abs=2e-3)
    least = math.ceil(5 * math.log(512) * 27 / 4)
    assert epsilon_of_paper(least - 1, 512) is None and (epsilon_of_paper(least, 512) or 0) > 0.6


def test_the_formula_for_the_mean_square() -> None:
    p, w = normal(9, 30).softmax(-1), normal(30, 2)
    found = product_errors(p, w[:, :1], 7, 1, generator())
    r = torch.randn(4000, 7, 30, generator=torch.Generator().manual_seed(2)) / math.sqrt(7)
    squares = ((p @ r.mT) @ (r @ w[:, :1]) - p @ w[:, :1]).square().sum((1, 2))
    measured = float(squares.mean().sqrt() / (p @ w[:, :1]).norm())
    assert found.expected == pytest.approx(measured, rel=0.05)


def test_bounds_of_a_product() -> None:
    """With w = x, both bounds are the same, and for a large k all products are within them."""
    x = normal(1, 40)
    found = product_errors(x, x.T, 4000, 20, generator())
    assert found.within_product == found.within_norms == 1 and found.error < 0.1
    small = product_errors(x, x.T, 1, 200, generator())
    assert small.within_product == small.within_norms < 0.5


def test_the_proof_of_theorem_1() -> None:
    found = proofs.inner_products(generator())
    assert found["rows"] == 250
    # |Z| / sqrt(k) <= eps |Z'| / sqrt(n) for independent normal Z, Z'
    assert found["within_product"] == pytest.approx(2 / math.pi * math.atan(0.5 * math.sqrt(250 / 512)), abs=0.02)
    assert found["within_norms"] > 0.9999


def test_the_bound_of_theorem_2_holds_for_output_zero() -> None:
    found = proofs.output_zero(generator())
    assert 0.04 < found["frobenius"] < 0.08 and found["frobenius"] < found["spectral"] < 0.5


def test_the_construction_of_the_proof_forgets_the_query() -> None:
    small, smaller = (proofs.small_delta(delta, generator()) for delta in (1 / 512, 1e-5))
    assert 1e-3 < small["spread"] < 6e-3 and smaller["spread"] < 1e-4 < 0.5 < small["exact_spread"]
    assert all(1.2 < found["error"] < 2 for found in (small, smaller))


def test_with_k_of_n_windows_and_frequencies_are_exact() -> None:
    sample = Sample(*(normal(4, 2, 12, 8) for _ in range(3)))
    found = errors(sample, 12, generator())
    assert tuple(found) == METHODS
    for method in ("window_means", "dct", "least_squares"):
        assert found[method] < 1e-4
    assert found["random"] > 0.1 and found["proof"] > 0.1


def test_methods_by_hand() -> None:
    """k = 1: every method returns the one row of F V for every query."""
    sample = Sample(normal(2, 1, 10, 4), normal(2, 1, 10, 4), normal(2, 1, 10, 4))
    exact = attention(*sample.rest(1))
    mean = sample.value[1:].mean(-2, keepdim=True).expand_as(exact)
    found = errors(sample, 1, generator())
    expected = float((mean - exact).norm() / exact.norm())
    assert found["window_means"] == pytest.approx(expected) and found["dct"] == pytest.approx(expected)


def test_least_squares_are_a_minimum() -> None:
    sample = Sample(normal(3, 2, 20, 4), normal(3, 2, 20, 4) + 1, normal(3, 2, 20, 4))
    e = window_means(5, 20)
    f = fit_values(sample, e)
    exact = attention(*sample)

    def loss(values: torch.Tensor) -> float:
        return float((attention(sample.query, e @ sample.key, values @ sample.value) - exact).square().sum())

    assert loss(f) < 0.9 * loss(e)
    for seed in range(5):
        other = torch.randn(f.shape, generator=torch.Generator().manual_seed(seed))
        assert loss(f + 0.01 * other) > loss(f)


def test_smooth_inputs_need_the_same_k_for_every_n_and_independent_ones_do_not() -> None:
    def dct_errors(draw: Callable[..., Sample]) -> list[float]:
        return [errors(draw(4, n, generator()), 32, generator())["dct"] for n in (64, 256)]

    short, long = dct_errors(theory._smooth)
    assert long < 0.35 and long < 1.3 * short
    short, long = dct_errors(theory._independent)
    assert short > 0.5 and long > 1.1 * short


SMALL = ["--lengths", "16", "32", "--projected-dims", "4", "8", "--samples", "4"]


def analyse(out: Path, *words: object, status: int = 0) -> dict[str, Any]:
    device = ["--device", "cpu"] if "--checkpoint" in words else []
    given = ["analyse", "theory", *SMALL, *device, "--out", out, *words]
    assert cli.main([str(word) for word in given]) == status
    record: dict[str, Any] = json.loads((out / "theory.json").read_text()) if status == 0 else {}
    return record


@pytest.mark.slow
def test_a_stopped_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = analyse(tmp_path / "whole")
    assert len(whole["theorem1"]) == len(whole["theorem2"]) == 2 * 2 * 2
    figures = ("theorem1", "theorem2", "approximations")
    names = {"theory.json", *(f"{figure}.{kind}" for figure in figures for kind in ("png", "svg"))}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == names
    out = capsys.readouterr().out
    assert "entries of P V within" in out and "| rows, features, landmarks | mean pooling | 8 | 16 |" in out
    calls = 0

    def stopping(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return errors(*given)

    monkeypatch.setattr(theory, "errors", stopping)
    analyse(tmp_path / "out", status=130)
    analyse(tmp_path / "out", "--seed", 3, status=1)
    assert "with seed 1, not 3" in capsys.readouterr().err
    found = analyse(tmp_path / "out")
    assert calls == 4 + 5  # three of eight were there
    assert {**found, "provenance": None} == {**whole, "provenance": None}


@pytest.mark.slow
def test_inputs_of_a_linformer(sample: Path, tmp_path: Path) -> None:
    """The error of its own E and F is that of a layer's attention without W^O, on the second half of the blocks."""
    make_pretrained(tmp_path, n=128)
    words = ["--checkpoint", tmp_path / "model", "--text", sample, "--lengths", 128]
    record = analyse(tmp_path / "out", *words)
    assert {cell["input"] for cell in record["theorem2"]} > {"layer 1", "layer 2"}
    assert [cell["input"] for cell in record["trained"]] == ["layer 1", "layer 2"]
    own = record["trained"][0]
    hub = LinformerRobertaModel.from_pretrained(tmp_path / "model").eval()
    encoder = hub.model.encoder.sentence_encoder
    attention = encoder.layers[0].self_attn
    assert (own["n"], own["k"]) == (128, attention.settings.dims[0][0])
    chosen = load_fairseq(tmp_path / "model/model.safetensors", tmp_path / "model", torch.device("cpu"))
    with sample.open("rb") as stream, torch.no_grad():
        rows = torch.from_numpy(choose_blocks(open_source(sample, stream, None, []), chosen, 128, 4, 1).rows)
        torch.nn.init.eye_(attention.out_proj.weight)
        torch.nn.init.zeros_(attention.out_proj.bias)
        x = encoder.forward_embedding(rows[2:])[0]
        exact = dense_attention(attention, x)
        assert own["error"] == pytest.approx(float((attention(x)[0] - exact).norm() / exact.norm()), rel=1e-3)


@pytest.mark.slow
def test_a_layer_whose_heads_differ_in_k_has_no_error_at_its_own(sample: Path, tmp_path: Path) -> None:
    make_pretrained(tmp_path, "--sharing", "none", "--projected-dim", "[[8, 4], [4, 4]]", n=32)
    words = ["--checkpoint", tmp_path / "model", "--text", sample, "--lengths", 16, 32, "--projected-dims", 4]
    found = [(cell["input"], cell["n"], cell["k"]) for cell in analyse(tmp_path / "out", *words)["trained"]]
    assert found == [("layer 2", 16, 4), ("layer 2", 32, 4)]


@pytest.mark.slow
def test_other_approximations_are_left_out_where_they_cost_more(tmp_path: Path) -> None:
    words = ["--lengths", 16, "--projected-dims", 9, 12]
    assert analyse(tmp_path, *words)["approximations"] == []
    assert not list(tmp_path.glob("approximations.*")) and (tmp_path / "theorem2.png").is_file()
    assert cli.main(["analyse", "report", str(tmp_path)]) == 0


@pytest.mark.slow
def test_a_result_of_an_older_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = analyse(tmp_path, "--lengths", 8, "--projected-dims", 4)
    del record["approximations"]
    (tmp_path / "theory.json").write_text(json.dumps(record))
    analyse(tmp_path, "--lengths", 8, "--projected-dims", 4, status=1)
    assert "theory.json: an older version made it, without approximations" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--projected-dims", "0"], "--projected-dims: 0; expected 1 to 31"),
        (["--projected-dims", "32"], "--projected-dims: 32; expected 1 to 31"),
        (["--lengths", "1"], "--lengths: 1; expected at least 2"),
        (["--samples", "1"], "--samples 1: expected at least 2"),
        (["--checkpoint", "linformer-small"], "--checkpoint and --text: give both, or neither"),
        (["--device", "cpu"], "--device and --data are those of a model"),
        (["--data", "work/bin"], "--device and --data are those of a model"),
    ],
)
def test_values_out_of_range(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analyse(tmp_path, *words, status=1)
    assert message in capsys.readouterr().err


def test_a_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no")

    monkeypatch.setattr(theory, "errors", fail)
    analyse(tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "memory", "--lengths")


def test_a_length_that_the_model_does_not_take(
    roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analyse(tmp_path, "--checkpoint", roberta, "--text", sample, status=1)
    assert "--lengths: 32; expected 2 to 24" in capsys.readouterr().err


@pytest.mark.slow
def test_report(
    roberta: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["analyse", "report", str(tmp_path)]) == 1
    assert says(capsys.readouterr().err, "spectrum.json", "theory.json", "limits.json", "insertion.json")
    analyse(tmp_path / "theory", "--checkpoint", roberta, "--text", sample, "--lengths", 16)
    with monkeypatch.context() as patch:  # repeated to draw the figures again, it reads no text
        patch.setattr("linformer_fairseq.cli.analyse.choose_blocks", None)
        analyse(tmp_path / "theory", "--checkpoint", roberta, "--text", sample, "--lengths", 16)
    words = ["--sentences", "3", "--device", "cpu", "--out", str(tmp_path / "dense")]
    assert cli.main(["analyse", "spectrum", str(roberta), str(sample), *words]) == 0
    assert cli.main(["analyse", "report", str(tmp_path)]) == 0
    page = (tmp_path / "README.md").read_text()
    theory_links = ("theory/theorem2.png", "theory/approximations.png")
    for link in ("dense/spectrum_curves.png", "dense/spectrum_heat_map.png", *theory_links):
        assert f"]({link})" in page and (tmp_path / link).is_file()
    assert cli.main(["analyse", "attention", str(roberta), "--text", "the value", "--out", str(tmp_path / "map")]) == 0
    assert cli.main(["analyse", "report", str(tmp_path)]) == 0
    with_map = (tmp_path / "README.md").read_text()
    for link in ("map/attention.html", "map/attention.png"):
        assert f"]({link})" in with_map and (tmp_path / link).is_file()
    assert "projection.png" not in with_map and "## P for a text: roberta" in with_map
    assert "## Singular values of P: roberta" in page and "| layer 2 | window means |" in page
    capsys.readouterr()
    damaged = tmp_path / "dense" / "spectrum.json"
    record = json.loads(damaged.read_text())
    record["needed"]["checkpoint"]["0.9"] = "x"
    damaged.write_text(json.dumps(record))
    assert cli.main(["analyse", "report", str(tmp_path)]) == 1
    assert f"{damaged}: cannot be shown" in capsys.readouterr().err


def test_the_default_dims_are_below_the_largest_n() -> None:
    assert theory.default_dims(512) == [8, 16, 32, 64, 128, 256]
    assert theory.default_dims(256) == [8, 16, 32, 64, 128] and theory.default_dims(8) == [1]
