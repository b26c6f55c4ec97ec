"""What the command says of the distance between source and result, and what it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.conversion.comparison import perplexity
from linformer_fairseq.core.reference import dense_attention
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import compose
from tests.conversion.sources import N, load, make_fairseq, padded_batch


def convert(source: Path, out: Path, *words: object) -> dict[str, Any]:
    assert cli.main(["convert", str(source), str(out), *map(str, words)]) == 0
    record: dict[str, Any] = json.loads((out / "conversion.json").read_text())
    return record


@pytest.mark.filterwarnings("ignore:projected_dim")
def test_with_k_of_n_there_is_no_distance(roberta: Path, sample: Path, tmp_path: Path) -> None:
    compared = convert(roberta, tmp_path / "out", "--projected-dim", N, "--text", sample)["comparison"]
    (row,) = compared["perplexity"]
    assert row["length"] == N and row["blocks"] > 10
    assert row["result"] == pytest.approx(row["source"], rel=1e-4)
    assert max(compared["attention_errors"]) < 1e-5


def test_figures_are_those_of_the_two_models(
    roberta: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = 2 * N
    words = ["--projected-dim", 8, "--max-positions", n, "--text", sample, "--text-tokens", 10 * n, "--seed", 3]
    record = convert(roberta, tmp_path / "out", *words)
    hub = load(tmp_path / "out")
    lines = [line.strip() for line in sample.read_text().splitlines() if line.strip()]
    stream = torch.cat([hub.encode(line)[1:] for line in lines])[: 10 * (n - 1)]
    short, long = record["comparison"]["perplexity"]
    for row, length in ((short, N), (long, n)):
        count = len(stream) // (length - 1)
        body = stream[: count * (length - 1)].view(count, -1)
        rows = torch.cat([torch.zeros(count, 1, dtype=torch.long), body], dim=1)
        assert (row["length"], row["blocks"]) == (length, count)
        assert row["result"] == pytest.approx(perplexity(hub.model, rows, seed=3), rel=1e-5)
        if length == N:
            theirs = make_fairseq(tmp_path / "again").eval()
            assert row["source"] == pytest.approx(perplexity(theirs, rows, seed=3), rel=1e-4)
    # the first layer's input is the same in both models, so the source's attention is that of the result's weights
    encoder = hub.model.encoder.sentence_encoder
    with torch.no_grad():
        attention, x = encoder.layers[0].self_attn, encoder.forward_embedding(rows)[0]
        expected, found = dense_attention(attention, x), attention(x)[0]
    error = float((found - expected).norm() / expected.norm())
    assert record["comparison"]["attention_errors"][0] == pytest.approx(error, rel=1e-4)
    said = capsys.readouterr().out
    for row in (short, long):
        assert f"{row['source']:.2f}, result {row['result']:.2f}" in said
    command = re.search(r"linformer pretrain (.*)", said)
    assert command and f"pretrained={tmp_path / 'out'}" in command[1]
    assert compose("pretraining", command[1].split()).task.tokens_per_sample == n


def test_perplexity_is_that_of_masked_tokens(roberta: Path, tmp_path: Path) -> None:
    convert(roberta, tmp_path / "out", "--projected-dim", 8)
    hub = load(tmp_path / "out")
    symbols = hub.task.source_dictionary
    rows = padded_batch(len(symbols))[:1].repeat(50, 1)
    chosen = (torch.rand(rows.shape, generator=torch.Generator().manual_seed(4)) < 0.15) & (rows > 3)
    with torch.no_grad():
        logits = hub.model(rows.masked_fill(chosen, symbols.index("<mask>")))[0]
    loss = torch.nn.functional.cross_entropy(logits[chosen], rows[chosen])
    assert perplexity(hub.model, rows, seed=4) == pytest.approx(float(loss.exp()), rel=1e-4)


def test_a_perplexity_of_no_token_is_an_error(roberta: Path, tmp_path: Path) -> None:
    convert(roberta, tmp_path / "out", "--projected-dim", 8)
    with pytest.raises(UserError, match="--text: none of 20 tokens was masked"):
        perplexity(load(tmp_path / "out").model, torch.full((2, 10), 2), seed=1)


def test_weights_are_in_full_precision_and_the_record_says_what_was_chosen(roberta: Path, tmp_path: Path) -> None:
    words = ["--projected-dim", "[8,4]", "--sharing", "headwise", "--projection", "linear", "--seed", 3]
    record = convert(roberta, tmp_path / "out", *words)
    expected = {"projected_dim": [8, 4], "sharing": "headwise", "projection": "linear", "start": "window_means"}
    assert record["choices"] == {**expected, "max_positions": N, "seed": 3}
    assert record["source"]["name"] == "source" and record["source"]["max_positions"] == N
    assert record["comparison"] is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "conversion.json",
        "dict.txt",
        "encoder.json",
        "model.safetensors",
        "vocab.bpe",
    ]
    result = load(tmp_path / "out").model
    assert (result.encoder.settings.short_inputs, result.encoder.settings.row_weights) == ("stretch", "affine")
    found, theirs = result.state_dict(), make_fairseq(tmp_path / "again").state_dict()
    kept = [name for name in theirs if theirs[name].is_floating_point() and not name.endswith("version")]
    assert len(kept) > 30 and all(torch.equal(found[name], theirs[name]) for name in kept)
