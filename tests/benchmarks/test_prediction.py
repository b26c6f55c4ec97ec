"""Speed of prediction: both programs read the same tokens, and the table shows both."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("datasets")
pytest.importorskip("tiktoken")

from benchmarks.__main__ import main
from benchmarks.efficiency import prediction, readme
from tests.data_prep.small_tokenizers import make_gpt2, text

SIZES = ["--layers", "2", "--width", "16", "--ffn", "64", "--heads", "2", "--positions", "32", "--projected-dim", "8"]


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Options for small files and a small tokenizer."""
    lines = [line for line in text(20).split("\n") if line]
    for name, joined in (("documents", 4), ("sentences", 1)):
        rows = (" ".join(lines[start : start + joined]) for start in range(0, 16, joined))
        (tmp_path / name).write_text("".join(f"{row}\n" for row in rows))
    files = [word for name in ("documents", "sentences") for word in (f"--{name}", str(tmp_path / name))]
    return ["--bpe", str(make_gpt2(tmp_path / "bpe")), *files]


def test_both_programs_on_both_files(inputs, tmp_path):
    out = tmp_path / "efficiency" / "prediction.json"
    words = ["prediction", *inputs, "--rounds", "2", "--texts", "4", "--batch-sizes", "2", *SIZES, "--out", str(out)]
    assert main(words) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [(cell["input"], cell["batch_size"]) for cell in cells] == [
        (kind, batch) for kind in ("documents", "sentences") for batch in (None, 2)
    ]
    for mine, theirs in (cells[:2], cells[2:]):
        assert mine["ours_times_faster"] == 1 and mine["texts"] == theirs["texts"] == 4
        ratios = sorted(b / a for a, b in zip(mine["all_seconds"], theirs["all_seconds"], strict=True))
        assert theirs["ours_times_faster"] == pytest.approx(sum(ratios) / 2)
    assert "| Hugging Face pipeline, batches of 2 | " in "\n".join(readme.of_kind("prediction", tmp_path))


def test_both_encode_to_the_same_tokens(inputs):
    from fairseq.data import Dictionary
    from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig

    from linformer_fairseq.models.encoding import TextEncoder

    bpe = Path(inputs[1])
    ours = GPT2BPE(GPT2BPEConfig(gpt2_encoder_json=str(bpe / "encoder.json"), gpt2_vocab_bpe=str(bpe / "vocab.bpe")))
    encode, tokenizer = TextEncoder(ours, Dictionary.load(str(bpe / "dict.txt"))), prediction._tokenizer(bpe)
    for line in Path(inputs[3]).read_text().splitlines():
        assert tokenizer(line)["input_ids"] == [0, *encode(line).tolist(), 2]


def test_the_last_article_needs_no_empty_line_behind_it(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "LONG", 3)
    (tmp_path / "corpus").mkdir()
    with lzma.open(tmp_path / "corpus" / "wiki.txt.xz", "wt") as stream:
        stream.write("one\ntwo\n\nno\n\nlast")
    assert list(prediction.documents(tmp_path)) == ["one two", "last"]


def test_without_data_it_says_what_to_give(monkeypatch, refused):
    monkeypatch.delenv("LINFORMER_DATA", raising=False)
    assert "LINFORMER_DATA" in refused("prediction", *SIZES)
