"""What is not converted is refused by name, and leaves nothing behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from linformer_fairseq import cli
from tests.checkpoint_files import damage
from tests.conversion.sources import N, make_huggingface, rewrite_config
from tests.models import make_pretrained


def refusal(capsys: pytest.CaptureFixture[str], source: Path, out: Path, *words: object) -> str:
    """The one line that the command says."""
    capsys.readouterr()  # what making the source printed
    given = ["--projected-dim", "8", *map(str, words)]
    assert cli.main(["convert", str(source), str(out), *given]) == 1
    assert list(out.parent.glob("*out*")) == []
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--projected-dim", "a"], "projected_dim is 'a'"),
        (["--projected-dim", N + 1], f"--projected-dim {N + 1}: more than the {N} positions"),
        (["--projected-dim", f"[[8,8],[8,{N + 1}]]"], f"--projected-dim {N + 1}: more than the {N} positions"),
        (["--projected-dim", "[8,8,8]"], "3 layers"),
        (["--projected-dim", "[8,4]", "--projection", "linear"], "--projected-dim [8, 4]"),
        (["--max-positions", 0], "--max-positions 0"),
        (["--max-positions", 10**12], "a smaller --max-positions"),
        (["--start", "dct", "--projection", "convolution"], "--start dct"),
        (["--start", "random", "--projection", "mean_pool"], "--start random"),
        (["--start", "least_squares"], "--text FILE"),
        (["--text-tokens", 5], "--text-tokens 5: no text"),
        (["--text", "absent.txt"], "absent.txt: no such file"),
        (["--data", "absent"], "absent/dict.txt: no such file"),
        (["--device", "abacus"], "--device abacus"),
    ],
)
@pytest.mark.filterwarnings("error:projected_dim")
def test_choices(
    roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[Any], message: str
) -> None:
    assert message in refusal(capsys, roberta, tmp_path / "out", *words)


def test_text_that_is_too_short_for_a_fit(roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("\u2028".join(["a word"] * 3))
    words = ["--text", tmp_path / "text.txt", "--start", "least_squares"]
    assert f"--start least_squares takes at least {2 * (N - 1)}" in refusal(capsys, roberta, tmp_path / "out", *words)


def test_folders_above_that_were_made_are_removed(roberta: Path, tmp_path: Path) -> None:
    assert cli.main(["convert", str(roberta), str(tmp_path / "a" / "b" / "out"), "--projected-dim", str(N + 1)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_too_short(roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.txt").write_text("the")
    assert f"expected at least {N - 1}" in refusal(capsys, roberta, tmp_path / "out", "--text", tmp_path / "short.txt")


def test_what_is_there_stays(roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    assert cli.main(["convert", str(roberta), str(tmp_path / "out"), "--projected-dim", "8"]) == 1
    assert "already exists" in capsys.readouterr().err and (tmp_path / "out").is_dir()


def test_a_file_that_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named before the dictionary that it does not have."""
    (tmp_path / "text.txt").write_text("some text\n")
    assert "text.txt: cannot be read as a checkpoint" in refusal(capsys, tmp_path / "text.txt", tmp_path / "out")


def test_fairseq_sources(roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentencepiece")
    out, copy = tmp_path / "out", tmp_path / "copy"
    assert "model.pt: no such file" in refusal(capsys, tmp_path, out)
    assert "absent.pt: no such file" in refusal(capsys, tmp_path / "absent.pt", out)
    linformer = make_pretrained(tmp_path / "linformer")
    assert "a Linformer already" in refusal(capsys, linformer, out)
    assert "a Linformer already" in refusal(capsys, Path("linformer-small"), out)
    shutil.copytree(roberta, copy)
    with (copy / "dict.txt").open("a") as stream:
        stream.write("more 1\n")
    assert "do not fit its options or the dictionary" in refusal(capsys, copy, out)
    (copy / "encoder.json").unlink()
    assert "no tokenizer found" in refusal(capsys, copy, out)
    damage(copy / "model.pt")
    (copy / "encoder.json").write_bytes((roberta / "encoder.json").read_bytes())
    assert "model.pt: cannot be read as a checkpoint" in refusal(capsys, copy, out)


def _without_head(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {key: tensor for key, tensor in weights.items() if not key.startswith("lm_head.")}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def _with_more(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["classifier.dense.weight"] = next(iter(weights.values())).clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def _set(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: rewrite_config(folder, **changes)


def _lose_a_token(folder: Path) -> None:
    path = folder / "vocab.json"
    path.write_text(path.read_text().replace('"<mask>"', '"[MASK]"'))


def _give_two_tokens_one_id(folder: Path) -> None:
    path = folder / "vocab.json"
    ids = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**ids, "the": ids["in"]}), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(model_type="bert"), "model_type 'bert'"),
        (_set(model_type="linformer"), "linformer import hf"),
        (_set(layer_norm_eps=1e-12), "layer_norm_eps is 1e-12"),
        (_set(layer_norm_eps=None), "layer_norm_eps is 1e-12"),
        (_set(hidden_act="relu"), "hidden_act is 'relu'"),
        (_set(position_embedding_type="relative_key"), "position_embedding_type is 'relative_key'"),
        (_set(is_decoder=True), "is_decoder is True"),
        (_set(intermediate_size=64), "encoder_ffn_embed_dim is 64"),
        (_set(num_hidden_layers=1), "has no place"),
        (_set(pad_token_id="<pad>"), "pad_token_id is '<pad>'"),
        (_without_head, "lm_head"),
        (_with_more, "classifier.dense.weight"),
        (_truncate, "model.safetensors: damaged"),
        (_lose_a_token, "no token '<mask>'"),
        (_give_two_tokens_one_id, "ids do not fit"),
        (lambda folder: (folder / "merges.txt").unlink(), "merges.txt: no such file"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: no such file"),
        (lambda folder: (folder / "config.json").write_text("["), "config.json: not JSON"),
    ],
)
def test_hugging_face_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], message: str
) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "source")
    change(tmp_path / "source")
    assert message in refusal(capsys, tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize(
    ("part", "option", "value"),
    [("pre_tokenizer", "use_regex", False), ("model", "end_of_word_suffix", "</w>")],
)
def test_a_tokenizer_that_makes_other_tokens_than_fairseqs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, option: str, value: Any
) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "source", fast=True)
    path = tmp_path / "source" / "tokenizer.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found[part].pop(option, None)  # older versions of tokenizers did not write it
    path.write_text(json.dumps(found), encoding="utf-8")
    assert cli.main(["convert", str(tmp_path / "source"), str(tmp_path / "made"), "--projected-dim", "8"]) == 0
    found[part][option] = value
    path.write_text(json.dumps(found), encoding="utf-8")
    assert f"{path}: {part}.{option} is {value!r}" in refusal(capsys, tmp_path / "source", tmp_path / "out")


def test_a_tokenizer_that_changes_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "source", fast=True)
    path = tmp_path / "source" / "tokenizer.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**found, "normalizer": {"type": "Lowercase"}}), encoding="utf-8")
    assert f"{path}: model BPE, pre_tokenizer ByteLevel, normalizer Lowercase" in refusal(
        capsys, tmp_path / "source", tmp_path / "out"
    )
