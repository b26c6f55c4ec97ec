"""`linformer embed` and `linformer fill-mask`, with the model that comes with the package."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from linformer_fairseq import cli
from linformer_fairseq.models import LinformerRobertaModel
from tests.conftest import REPOSITORY
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.messages import says
from tests.models import write_checkpoint

MODEL = "linformer-small"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPOSITORY)}
TEXTS = ["He opened the door and walked into the room.", "", "The book was first published in 1920.", "A short text"]
GOOD = [0, 2, 3]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


def embed(*words: object, status: int = 0) -> None:
    assert cli.main(["embed", MODEL, "--device", "cpu", *map(str, words)]) == status


def test_vectors_of_texts(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "v.npy"
    embed(texts, "--out", out, "--pooling", "first", status=1)
    assert says(capsys.readouterr().err, f"{texts}, line 2: no text")
    found = np.load(out)
    hub = LinformerRobertaModel.from_pretrained(MODEL)
    expected = [one.vectors for one in hub.embed([TEXTS[i] for i in GOOD], pooling="first")]
    np.testing.assert_allclose(found[GOOD], expected, atol=1e-5)
    assert np.isnan(found[1]).all() and found.shape == (4, hub.width)
    embed(texts, "--out", tmp_path / "v.parquet", "--pooling", "first", status=1)
    rows = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"] and rows[1]["vector"] is None
    np.testing.assert_allclose([rows[i]["vector"] for i in GOOD], expected, atol=1e-5)


def test_the_mean_is_the_default_and_tokens_can_be_had(texts: Path, tmp_path: Path) -> None:
    embed(texts, "--out", tmp_path / "mean.npy", status=1)
    embed(texts, "--out", tmp_path / "all.npy", "--pooling", "tokens", status=1)
    lengths = np.load(tmp_path / "all.lengths.npy")
    parts = np.split(np.load(tmp_path / "all.npy"), np.cumsum(lengths)[:-1])
    means = np.stack([part.mean(axis=0) if len(part) else np.full(part.shape[1], np.nan) for part in parts])
    np.testing.assert_allclose(means, np.load(tmp_path / "mean.npy"), atol=1e-5)


def test_the_lengths_do_not_replace_the_input(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = texts.rename(tmp_path / "w.lengths.npy")
    embed(given, "--format", "lines", "--out", tmp_path / "w.npy", "--pooling", "tokens", status=1)
    assert says(capsys.readouterr().err, f"--out {given}", "this file is read")
    assert given.read_text() == "\n".join(TEXTS) and list(tmp_path.iterdir()) == [given]


def test_wrong_options_are_said(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = ["--out", tmp_path / "v.npy", "--pooling", "tokens", "--long", "windows"]
    for words, expected in ((["--out", tmp_path / "v.csv"], "v.csv: expected"), (tokens, "--pooling tokens")):
        embed(texts, *words, status=1)
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and says(said, "linformer embed: error:", expected)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_no_texts_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").touch()
    embed(tmp_path / "empty.txt", "--out", tmp_path / "v.npy")
    assert np.load(tmp_path / "v.npy").shape == (0, 256)
    assert cli.main(["fill-mask", MODEL, str(tmp_path / "empty.txt"), "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert said.err == f"{tmp_path / 'empty.txt'}: no texts in it\n" * 2
    assert said.out == "id\ttoken\tprobability\ttext\n"


def test_more_candidates_than_tokens_are_refused(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = LinformerRobertaModel.from_pretrained(MODEL).candidates
    assert cli.main(["fill-mask", MODEL, str(texts), "--top", str(tokens + 1)]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and says(said.err, "linformer fill-mask: error: --top", tokens + 1, tokens)
    assert said.out == ""


@pytest.mark.slow
def test_sigterm_leaves_nothing(tmp_path: Path) -> None:
    words = ["embed", MODEL, "-", "--out", "v.npy", "--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "linformer_fairseq.cli", *words], cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE
    ) as command:
        while not list(tmp_path.iterdir()):
            assert command.poll() is None
            time.sleep(0.1)
        command.terminate()
        assert command.wait() == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_not_overwritten(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts.read_text()
    assert cli.main(["fill-mask", MODEL, str(texts), "--out", str(texts)]) == 1
    assert says(capsys.readouterr().err, f"--out {texts}", "choose another file")
    assert texts.read_text() == before


def test_masks_are_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "masks.txt"
    path.write_text("He opened the <mask> and walked into the room.\nno mask\nThe book was first <mask> in 1920.\n")
    words = ["fill-mask", MODEL, str(path), "--device", "cpu", "--top", "2"]
    assert cli.main(words) == 1
    said = capsys.readouterr()
    assert says(said.err, f"{path}, line 2: ", "found 0") and says(said.err, "1 of 3 texts")
    header, *rows = [line.split("\t") for line in said.out.splitlines()]
    assert header == ["id", "token", "probability", "text"]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"] and rows[2][1:] == ["", "", ""]
    assert rows[0][1] == " door" and rows[0][3] == "He opened the door and walked into the room."
    assert float(rows[0][2]) > float(rows[1][2]) > 0
    assert cli.main([*words, "--jsonl"]) == 1
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["candidates"][0]["token"] == " door" and third["candidates"][0]["token"] == " published"
    assert "found 0" in second["error"]


def test_a_pair_of_texts_is_no_text_with_a_mask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "masks.tsv"
    path.write_text("He said\t<mask>\nHe opened the <mask> and\twalked into the room.\n")
    assert cli.main(["fill-mask", MODEL, str(path), "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert said.err.count("found a pair of texts") == 2 and says(said.err, "2 of 2 texts")


def test_a_finetuned_model_fills_no_masks(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fill-mask", f"{MODEL}-sst2", str(texts), "--device", "cpu"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says(said, f"{MODEL}-sst2", "finetuned", "linformer predict")


def test_roberta_itself(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_sentencepiece(tmp_path / "data")
    sizes = ("--max-positions", "512", "--tokens-per-sample", "512")
    checkpoint = write_checkpoint(data, tmp_path / "roberta.pt", *sizes, task="masked_lm", arch="roberta")
    words = ["embed", checkpoint, texts, "--out", tmp_path / "v.npy", "--device", "cpu"]
    assert cli.main(list(map(str, words))) == 1, "the empty line"
    assert np.load(tmp_path / "v.npy").shape == (4, 16)
    (tmp_path / "mask.txt").write_text("He opened the <mask>.\n")
    assert cli.main(["fill-mask", str(checkpoint), str(tmp_path / "mask.txt"), "--device", "cpu"]) == 0
    capsys.readouterr()


def test_a_folder_for_the_output_is_refused_before_the_work(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embed(texts, "--out", tmp_path, status=1)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says(said, f"--out {tmp_path}: is a folder")


def test_a_checkpoint_finds_the_data_of_its_training(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_sentencepiece(tmp_path / "data")
    sizes = ("--max-positions", "512", "--tokens-per-sample", "512")
    checkpoint = write_checkpoint(data, tmp_path / "run" / "checkpoint.pt", *sizes, task="masked_lm")
    words = ["embed", str(checkpoint), str(texts), "--out", str(tmp_path / "v.npy"), "--device", "cpu"]
    assert cli.main(words) == 1, "the empty line"
    assert np.load(tmp_path / "v.npy").shape == (4, 16)
    capsys.readouterr()
    other = make_sentencepiece(tmp_path / "other", byte_fallback=False)
    assert cli.main([*words, "--data", str(other)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says(said, "linformer embed: error:", checkpoint, "size mismatch", other)
    shutil.rmtree(data)
    assert cli.main(words) == 1
    assert says(capsys.readouterr().err, f"{data}: no dict.txt", checkpoint, "--data")
