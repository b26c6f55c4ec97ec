"""`linformer analyse limits`: predictions are those of fairseq's model; a stopped run goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from linformer_fairseq import cli
from linformer_fairseq.analysis import sums
from linformer_fairseq.analysis.blocks import choose_blocks
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.prediction.inputs import open_source
from tests.conversion.sources import N, make_fairseq, make_huggingface
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.messages import says
from tests.models import make_pretrained, write_checkpoint
from tests.prepared_task import qqp

BLOCKS, MOST = 6, 8


def analyse(model: Path, text: Path, out: Path, *words: object, status: int = 0) -> dict[str, Any]:
    given = ["--sentences", BLOCKS, "--device", "cpu", "--out", out, *words]
    assert cli.main(["analyse", "limits", str(model), str(text), *map(str, given)]) == status
    if status:
        return {}
    record: dict[str, Any] = json.loads((out / "limits.json").read_text())
    return record


class Reference:
    """fairseq's own RoBERTa, one input at a time."""

    def __init__(self, model: Any) -> None:
        self.model, self.symbols = model, model.encoder.dictionary
        self.loss: list[float] = []
        self.right: list[bool] = []

    @torch.no_grad()
    def see(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Predict the masked tokens of an input (T,); returns its features (T, C)."""
        hidden = tokens.masked_fill(masked, self.symbols.index("<mask>"))[None]
        features: Tensor = self.model(hidden, features_only=True)[0][0]
        logits = self.model(hidden)[0][0]
        for place in masked.nonzero()[:, 0].tolist():
            self.loss.append(float(F.cross_entropy(logits[place], tokens[place])))
            self.right.append(int(logits[place].argmax()) == int(tokens[place]))
        return features

    def check(self, found: dict[str, Any]) -> None:
        assert found["masked"] == len(self.loss) > 0
        assert found["accuracy"] == pytest.approx(sum(self.right) / len(self.right), abs=1e-5)
        assert found["perplexity"] == pytest.approx(math.exp(sum(self.loss) / len(self.loss)), rel=1e-4)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a RoBERTa with n = 24, and its model."""
    folder = tmp_path_factory.mktemp("limits") / "roberta"
    return folder, make_fairseq(folder)


def test_every_figure_is_that_of_fairseqs_model(source: tuple[Path, Any], sample: Path, tmp_path: Path) -> None:
    folder, model = source
    record = analyse(folder, sample, tmp_path, "--lengths", 9, N, "--shifts", 3, MOST, "--batch", 4)

    encoder = load_fairseq(folder / "model.pt", folder, torch.device("cpu"))
    with sample.open("rb") as stream:
        blocks = torch.from_numpy(choose_blocks(open_source(sample, stream, None, []), encoder, N, BLOCKS, 1).rows)
    masked = torch.rand(blocks.shape, generator=torch.Generator().manual_seed(1)) < 0.15
    masked &= (blocks >= 4) & (blocks != model.encoder.dictionary.index("<mask>"))

    pieces, whole = Reference(model), Reference(model)
    for block, hidden in zip(blocks, masked, strict=True):
        whole.see(block, hidden)
        for start in (1, 9):  # two pieces of 8 tokens behind <s>; the last 7 tokens are left out
            inside = slice(start, start + 8)
            pieces.see(torch.cat([block[:1], block[inside]]), F.pad(hidden[inside], (1, 0)))
    assert [row["length"] for row in record["lengths"]] == [9, N]
    pieces.check(record["lengths"][0])
    whole.check(record["lengths"][1])
    assert [row["rows"] for row in record["lengths"]] == [9, N], "a dense model: a column for each token"

    text = slice(1, N - MOST)
    for place, behind in (("inserted", 0), ("moved", MOST - 3)):
        alone, third = Reference(model), Reference(model)
        change = squares = 0.0
        for number, (block, hidden) in enumerate(zip(blocks, masked, strict=True)):
            other = blocks[number - 1, 1 : 1 + 3 + behind]
            rest = other if place == "moved" else other[:0]
            first = alone.see(torch.cat([block[:1], block[text], rest]), F.pad(hidden[text], (1, len(rest))))
            third_input = torch.cat([block[:1], other[:3], block[text], other[3:]])
            features = third.see(third_input, F.pad(hidden[text], (4, behind)))
            length = N - MOST - 1
            change += float((features[4 : 4 + length] - first[1 : 1 + length]).square().sum())
            squares += float(first[1 : 1 + length].square().sum())
        assert [row["shift"] for row in record["shifts"]] == [0, 3, MOST]
        alone.check(record["shifts"][0][place])
        third.check(record["shifts"][1][place])
        assert record["shifts"][0][place]["change"] == 0
        assert record["shifts"][1][place]["change"] == pytest.approx(math.sqrt(change / squares), abs=1e-4)


@pytest.mark.slow
def test_a_stopped_run_goes_on(
    source: tuple[Path, Any],
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, _ = source
    words = ["--lengths", N, "--shifts", 4]
    whole = analyse(folder, sample, tmp_path / "whole", *words, "--batch", 2)
    figures = {f"limits.{kind}" for kind in ("json", "png", "svg")}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == figures
    predict, calls = FairseqEncoder.predict, 0

    def stopping(self: FairseqEncoder, *given: Any) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        if calls == 7:  # five inputs of the first batch, and one of the second
            raise KeyboardInterrupt
        return predict(self, *given)

    monkeypatch.setattr(FairseqEncoder, "predict", stopping)
    monkeypatch.setattr(sums, "SECONDS_BETWEEN_WRITES", 0.0)
    out = tmp_path / "out"
    analyse(folder, sample, out, *words, "--batch", 2, status=130)
    assert {path.name for path in out.iterdir()} == {"limits.partial.npz"}
    analyse(folder, sample, out, *words, "--seed", 2, status=1)
    assert "with seed 1, not 2" in capsys.readouterr().err
    found = analyse(folder, sample, out, *words, "--batch", 2)
    assert calls == 7 + 10, "two batches of five inputs are left"
    assert (found["lengths"], found["shifts"]) == (whole["lengths"], whole["shifts"])
    analyse(folder, sample, out, *words)  # a finished one is only drawn again
    assert calls == 17
    analyse(folder, sample, out, "--lengths", N, "--shifts", 5, status=1)
    assert "with shifts [0, 4], not [0, 5]" in capsys.readouterr().err


def test_a_linformer_has_no_more_rows_than_k(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_pretrained(tmp_path, n=128)
    record = analyse(tmp_path / "model", sample, tmp_path / "out")
    assert [row["length"] for row in record["lengths"]] == [16, 32, 64, 128]
    assert [row["shift"] for row in record["shifts"]] == [0, 1, 2, 4, 8, 16, 32, 64]
    assert record["lengths"][-1]["rows"] < 128 and record["encoder"]["is_dense"] is False
    assert "| T | projected rows |" in capsys.readouterr().out

    assert cli.main(["analyse", "report", str(tmp_path)]) == 0
    page = (tmp_path / "README.md").read_text()
    assert "## Length and position: model (out)\n" in page and "](out/limits.png)" in page
    assert cli.main(["analyse", "report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "README.md").read_text()
    assert "## Length and position: model\n" in page and "](limits.png)" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lengths", "25"], "--lengths 25: expected 8 to 24"),
        (["--lengths", "16", "7"], "--lengths 7: expected 8 to 24"),
        (["--shifts", "13"], "--shifts 13: expected 0 to 12"),
        (["--shifts", "-1"], "--shifts -1: expected 0 to 12"),
        (["--sentences", "1"], "--sentences 1: expected at least 2"),
        (["--sentences", "100000"], "--sentences is 100,000"),
    ],
)
def test_values_out_of_range(
    words: list[str],
    message: str,
    source: tuple[Path, Any],
    sample: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    analyse(source[0], sample, tmp_path / "out", *words, status=1)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def without_masks(end: int) -> int:
    """A seed with which no token of two blocks is masked before ``end``."""
    for seed in range(1000):
        drawn = torch.rand(2, N, generator=torch.Generator().manual_seed(seed)) < 0.15
        if drawn.any() and not drawn[:, 1:end].any():
            return seed
    raise AssertionError


@pytest.mark.parametrize("words", [["--lengths", 14, "--shifts", 0], ["--lengths", N, "--shifts", 10]])
def test_inputs_without_a_masked_token_are_refused_before_anything_is_written(
    words: list[object], source: tuple[Path, Any], sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one piece of 14 tokens, or the 14 that are moved; tokens behind them are masked."""
    words = [*words, "--seed", without_masks(14)]
    analyse(source[0], sample, tmp_path / "out", *words, "--sentences", 2, status=1)
    assert says(capsys.readouterr().err, "--sentences 2", "no token", "ask for more")
    assert not (tmp_path / "out").exists()
    analyse(source[0], sample, tmp_path / "out", *words, "--sentences", 20)


def test_a_finetuned_model_and_prepared_data_are_refused(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = qqp(tmp_path, make_sentencepiece(tmp_path / "tokenizer"))
    finetuned = write_checkpoint(data, tmp_path / "finetuned.pt")
    analyse(finetuned, sample, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "finetuned.pt", "linformer analyse insertion")
    pretrained = write_checkpoint(data, tmp_path / "pretrained.pt", task="masked_lm")
    analyse(pretrained, data, tmp_path / "out", "--data", data, status=1)
    assert says(capsys.readouterr().err, data, "prepared data", "expected text")


def test_another_kind_of_model_is_refused(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_huggingface(tmp_path / "model")
    analyse(tmp_path / "model", sample, tmp_path / "out", status=1)
    assert "a Hugging Face RoBERTa; expected a Linformer or fairseq's RoBERTa" in capsys.readouterr().err
