"""What E and F are before any training."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.conversion import convert as conversion
from linformer_fairseq.conversion.starts import STARTS, truncated_dct
from linformer_fairseq.core import SHARINGS
from tests.conversion.sources import N, load

K = 6


def convert(source: Path, out: Path, *words: object) -> Any:
    assert cli.main(["convert", str(source), str(out), "--projected-dim", str(K), *map(str, words)]) == 0
    return load(out)


def projections(hub: Any) -> list[torch.Tensor]:
    return [weight.detach() for name, weight in hub.model.named_parameters() if ".proj_" in name]


def test_the_choices_of_the_command_are_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["convert", "--help"])
    said = capsys.readouterr().out
    for choices in (STARTS, SHARINGS):
        assert f"{{{','.join(choices)}}}" in said


def test_window_means_and_dct(roberta: Path, tmp_path: Path) -> None:
    linear = convert(roberta, tmp_path / "means", "--projection", "linear", "--sharing", "headwise")
    expected = torch.eye(K).repeat_interleave(N // K, dim=1) / (N // K)
    for matrix in projections(linear):
        torch.testing.assert_close(matrix, expected)
    assert len(projections(linear)) == 4
    (kernel,) = projections(convert(roberta, tmp_path / "convolution"))
    assert torch.equal(kernel, torch.full((16, N // K), K / N))
    for matrix in projections(convert(roberta, tmp_path / "dct", "--start", "dct", "--sharing", "none")):
        torch.testing.assert_close(matrix, truncated_dct(K, N).expand(2, -1, -1))


def test_the_dct_keeps_what_varies_slowly() -> None:
    k, n = 8, 40
    matrix = truncated_dct(k, n)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(k))
    torch.testing.assert_close(matrix @ matrix.T, k / n * torch.eye(k), atol=1e-6, rtol=0)
    windows, positions = (torch.arange(k) + 0.5) / k, (torch.arange(n) + 0.5) / n
    for frequency in range(k):  # its values at the middle of the windows
        wave = torch.cos(math.pi * frequency * positions)
        torch.testing.assert_close(matrix @ wave, torch.cos(math.pi * frequency * windows), atol=1e-5, rtol=0)
    fast = torch.cos(math.pi * (k + 3) * positions)
    torch.testing.assert_close(matrix @ fast, torch.zeros(k), atol=1e-5, rtol=0)


def test_random_starts_follow_the_seed(roberta: Path, tmp_path: Path) -> None:
    words = ["--start", "random", "--projection", "linear"]
    one, same, other = (
        projections(convert(roberta, tmp_path / str(number), *words, "--seed", seed))[0]
        for number, seed in enumerate((1, 1, 2))
    )
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert one.abs().max() <= math.sqrt(3 / (N + K))


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["layerwise", "headwise"])
@pytest.mark.parametrize("projection", ["convolution", "linear"])
def test_least_squares_is_nearer(roberta: Path, sample: Path, tmp_path: Path, projection: str, sharing: str) -> None:
    """On text that it was not fitted to."""
    errors = {}
    for start in ("window_means", "least_squares"):
        words = ["--projection", projection, "--sharing", sharing, "--text", sample, "--text-tokens", 1200]
        convert(roberta, tmp_path / start, "--start", start, *words)
        record = json.loads((tmp_path / start / "conversion.json").read_text())
        errors[start] = record["comparison"]["attention_errors"]
    means, fitted = (torch.tensor(errors[start]).square().sum() for start in ("window_means", "least_squares"))
    assert fitted < 0.97 * means
    before, after = (load(tmp_path / start).model.state_dict() for start in errors)
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    assert changed and all(".proj_" in name for name in changed)


@pytest.mark.parametrize("count", [1200, 10**6], ids=["long text", "short text"])
def test_what_is_fitted_to_is_not_compared_on(
    count: int, roberta: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, torch.Tensor] = {}

    def compare(model: Any, rows: torch.Tensor, seed: int) -> float:
        seen["compared"] = rows
        return 1.0

    monkeypatch.setattr(conversion, "fit", lambda dense, model, rows: seen.update(fitted=rows))
    monkeypatch.setattr(conversion, "perplexity", compare)
    convert(roberta, tmp_path / "out", "--start", "least_squares", "--text", sample, "--text-tokens", count)
    fitted, compared = ({tuple(row) for row in seen[use].tolist()} for use in ("fitted", "compared"))
    assert fitted and compared and not fitted & compared
