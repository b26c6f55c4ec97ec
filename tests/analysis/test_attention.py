"""`linformer analyse attention`: P and E are the model's own, in the JSON and in the page; bad input is named."""

from __future__ import annotations

import base64
import hashlib
import json
from argparse import Namespace
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, encoders

from linformer_fairseq import cli
from linformer_fairseq.analysis import attention
from linformer_fairseq.analysis.attention import probabilities, tokens_of, weights, what_e_is
from linformer_fairseq.analysis.attention_figures import draw_attention
from linformer_fairseq.analysis.encoder import Attention
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.analysis.projected_rows import projected_rows
from linformer_fairseq.conversion.task import masked_lm
from linformer_fairseq.core import PROJECTIONS
from linformer_fairseq.core.reference import reference_attention
from linformer_fairseq.files.tokenizers import find_tokenizer
from linformer_fairseq.models import LinformerRobertaModel
from tests.conversion.sources import N as DENSE_N
from tests.conversion.sources import make_huggingface, rewrite_config
from tests.messages import says
from tests.models import TEXTS, N, make_pretrained

TEXT = "value </script><!--<img src=x onerror=a()>&$e$ \u2028 Ω"
FIGURES = {f"attention.{kind}" for kind in ("png", "svg")} | {f"projection.{kind}" for kind in ("png", "svg")}


def analyse(model: Path, out: Path, text: str = TEXT, status: int = 0) -> dict[str, Any]:
    words = ["attention", str(model), "--text", text, "--device", "cpu", "--out", str(out)]
    assert cli.main(["analyse", *words]) == status
    record: dict[str, Any] = {} if status else json.loads((out / "attention.json").read_text(encoding="utf-8"))
    return record


def check(found: np.ndarray, expected: np.ndarray) -> None:
    """P is within what 8 bits can say, and its rows sum to one."""
    largest = expected.max()
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= np.sqrt(expected * largest) / 250 + largest / 100_000).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=0.03)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def finished(small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The result of `TEXT`, and its record."""
    out = tmp_path_factory.mktemp("finished") / "out"
    return out, analyse(small, out)


@pytest.fixture(scope="module")
def build(small: Path) -> Callable[..., FairseqEncoder]:
    """A model with the given options, for the tokenizer of ``small``."""
    task = masked_lm(Dictionary.load(str(small / "dict.txt")), N)
    bpe = encoders.build_bpe(Namespace(**find_tokenizer([small])))
    sizes = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2}

    def build(**options: str) -> FairseqEncoder:
        torch.manual_seed(1)
        args = Namespace(**sizes, max_positions=N, **{"projected_dim": "8", **options})
        model = LinformerRobertaModel.build_model(args, task)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.5)
        return FairseqEncoder(model, task, bpe, is_dense=False)

    return build


@pytest.mark.parametrize(
    ("flags", "distinct"),
    [
        ("convolution layerwise", 1),
        ("linear layerwise", 1),
        ("linear key_value", 2),
        ("convolution headwise", 2),
        ("convolution none", 4),
        ("linear none [[8,4],[16,2]]", 4),
        ("mean_pool layerwise", 1),
        ("mean_pool none [8,16]", 2),
        ("max_pool layerwise", 2),
    ],
)
def test_every_projection(flags: str, distinct: int, build: Callable[..., Any], tmp_path: Path) -> None:
    projection, sharing, *dims = flags.split()
    encoder = build(projection=projection, sharing=sharing, **({"projected_dim": dims[0]} if dims else {}))
    record = attention.measure(encoder, attention.Settings("model", "0", TEXTS[0]), tmp_path, "command")
    assert (record["encoder"]["projection"], record["encoder"]["sharing"]) == (projection, sharing)
    assert len(record["projections"]) == distinct
    tokens = torch.from_numpy(tokens_of(encoder, TEXTS[0]))[None]
    with torch.no_grad():
        _, extra = encoder._model(tokens, features_only=True, return_all_hiddens=True)
    layers = encoder._model.encoder.sentence_encoder.layers
    for number, (layer, x) in enumerate(zip(layers, extra["inner_states"], strict=False)):
        one, x = layer.self_attn, x.transpose(0, 1)
        for head, p in enumerate(reference_attention(one, x)[1][0]):
            check(probabilities(record, number, head), p.detach().numpy())
            e = weights(record, number, head)
            expected = projected_rows(one, x)[head][0].detach()
            assert e is not None
            np.testing.assert_allclose(e, expected, atol=float(expected.abs().max()) / 250)


def test_dense_attention(roberta: Path, tmp_path: Path) -> None:
    text = "the value in a line"
    record = analyse(roberta, tmp_path / "out", text)
    encoder = load_fairseq(roberta / "model.pt", roberta, torch.device("cpu"))
    tokens = torch.tensor([[encoder.first, *encoder.encode(text), encoder.last]])

    def see(layer: int, found: Attention) -> None:
        for head, p in enumerate(found.probabilities[0]):
            check(probabilities(record, layer, head), p.numpy())
            assert weights(record, layer, head) is None

    encoder.attend(tokens, see)
    assert "".join(record["tokens"][1:-1]) == text and record["tokens"][::11] == ["<s>", "</s>"]
    assert not (tmp_path / "out/projection.png").exists() and (tmp_path / "out/attention.svg").exists()


@pytest.mark.parametrize("fast", [True, False])
def test_hugging_face(fast: bool, tmp_path: Path) -> None:
    from linformer_fairseq.analysis.huggingface_encoder import load_huggingface

    make_huggingface(tmp_path / "hf", fast=fast)
    text = "the value in a line"
    encoder = load_huggingface(tmp_path / "hf", torch.device("cpu"))
    record = attention.measure(encoder, attention.Settings("hf", "0", text), tmp_path / "out", "command")
    assert "".join(record["tokens"]) == f"<s>{text}</s>"
    assert record["encoder"]["is_dense"] and record["attention"][1][1]["rows"] == len(record["tokens"])


class Page(HTMLParser):
    """What a browser makes of the file: elements with their attributes, and the text in style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            self.contents.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("style", "script") and self.contents:
            self.contents[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}))


def test_the_page_has_the_record_and_loads_nothing(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    record = json.loads((out / "attention.json").read_text(encoding="utf-8"))
    text = (out / "attention.html").read_text(encoding="utf-8")
    page = Page(text)
    style, data, script = page.contents
    found = json.loads(data)
    assert {name: found[name] for name in record} == record
    assert "".join(record["tokens"]).count("script") == 1
    assert not [tag for tag, _ in page.elements if tag in ("img", "b", "iframe", "object")]
    assert [tag for tag, _ in page.elements].count("script") == 2 and "</body>" in text[text.index(script) :]
    assert all(
        value == "data:," for _, given in page.elements for name, value in given.items() if name in ("src", "href")
    )
    (policy,) = (given["content"] for _, given in page.elements if given.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for kind, content in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval", "http://", "https://"):
        assert word not in script


def test_files(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    assert {path.name for path in out.iterdir()} == {"attention.json", "attention.html", *FIGURES}
    for path in out.glob("*.svg"):
        ElementTree.parse(path)  # well-formed


def test_names_in_figures_are_no_formulas_and_no_control_characters(
    build: Callable[..., FairseqEncoder], tmp_path: Path
) -> None:
    settings = attention.Settings("model", "0", "the value is empty")
    record = attention.measure(build(), settings, tmp_path, "command")
    assert len(record["tokens"]) == 6
    record["tokens"] = ["<s>", "$$", "$\\frac{$", "\x07", "\x00 -->", "</s>"]
    for path in draw_attention(record, tmp_path):
        if path.suffix == ".svg":
            ElementTree.parse(path)  # well-formed


def test_only_a_result_of_the_same_settings_is_replaced(
    finished: tuple[Path, dict[str, Any]], small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, record = finished
    (out / "attention.html").unlink()
    again = analyse(small, out)
    assert {**again, "provenance": None} == {**record, "provenance": None}
    assert (out / "attention.html").exists()
    analyse(small, out, "another text", status=1)
    assert says(capsys.readouterr().err, "attention.json", "text", "value </script>", "another text", "--out")
    for damaged in ("{", "[]", '{"kind": "spectrum", "settings": {}}', '{"kind": "attention", "settings": 1}'):
        (tmp_path / "attention.json").write_text(damaged)
        analyse(small, tmp_path, status=1)
        assert says(capsys.readouterr().err, tmp_path / "attention.json")


@pytest.mark.parametrize("model", ["gpt2", "sentencepiece", "transformers"])
def test_parts_of_a_character_are_shown_as_bytes(model: str, roberta: Path, tmp_path: Path) -> None:
    if model == "transformers":
        make_huggingface(tmp_path / "model")
    folder = {"gpt2": roberta, "sentencepiece": Path("linformer-small"), "transformers": tmp_path / "model"}[model]
    tokens = analyse(folder, tmp_path / "out", "an 漢 a")["tokens"][1:-1]
    assert {"\\xe6", "\\xbc", "\\xa2"} <= set(tokens)
    raw = [bytes.fromhex(token[2:]) if token.startswith("\\x") else token.encode() for token in tokens]
    assert b"".join(raw).decode().strip() == "an 漢 a"


@pytest.mark.parametrize("model", ["gpt2", "sentencepiece", "transformers"])
def test_the_name_of_the_mask_is_the_mask(model: str, roberta: Path, small: Path, tmp_path: Path) -> None:
    if model == "transformers":
        make_huggingface(tmp_path / "model")
    folder = {"gpt2": roberta, "sentencepiece": small, "transformers": tmp_path / "model"}[model]
    tokens = analyse(folder, tmp_path / "out", "the <mask> value <mask>.")["tokens"]
    assert tokens.count("<mask>") == 2 and tokens[-3] == "<mask>"
    assert "".join(tokens[1:-1]).replace(" <mask>", "<mask>").strip() == "the<mask> value<mask>."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n\t ", ("--text", "no text")),
        ("\u200b", ("--text", "no tokens")),
        ("value \udcff", ("--text", "7", "UTF-8")),
    ],
)
def test_no_text(
    text: str, words: tuple[str, ...], small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analyse(small, tmp_path / "out", text, status=1)
    assert says(capsys.readouterr().err, *words)
    assert not (tmp_path / "out").exists()


def test_a_text_of_n_tokens_is_the_longest(roberta: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = load_fairseq(roberta / "model.pt", roberta, torch.device("cpu"))
    assert len(tokens_of(encoder, "x" * (DENSE_N - 2))) == DENSE_N
    analyse(roberta, tmp_path, "x" * (DENSE_N - 1), status=1)
    assert says(capsys.readouterr().err, "--text", DENSE_N + 1, DENSE_N)


def test_too_many_values(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attention, "LARGEST", 500)
    analyse(small, tmp_path, status=1)
    assert says(capsys.readouterr().err, "--text", "tokens", "2 layers of 2 heads", 500)


def test_a_lack_of_memory(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no")

    monkeypatch.setattr(FairseqEncoder, "attend", fail)
    analyse(small, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "memory", "--text", "--device cpu")


@pytest.mark.slow
def test_a_folder_called_like_a_shipped_model_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "linformer-small"
    folder.mkdir()
    for name in ("model.pt", "config.json"):
        (folder / name).write_text("none")
    monkeypatch.chdir(tmp_path)
    assert analyse(Path("linformer-small"), tmp_path / "out", "the value")["tokens"]


def test_other_kinds_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.pt").write_bytes(b"no checkpoint")
    analyse(tmp_path / "other.pt", tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "other.pt")
    make_huggingface(tmp_path / "hf")
    rewrite_config(tmp_path / "hf", model_type="gpt2")
    analyse(tmp_path / "hf", tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "gpt2", "roberta or bert")
    analyse(tmp_path / "none", tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "none", "no such file")


def test_what_is_shown_of_e_is_said_of_every_projection() -> None:
    said = {what_e_is({"encoder": {"projection": kind, "sharing": "none"}}) for kind in (None, *PROJECTIONS)}
    assert len(said) == 1 + len(PROJECTIONS)


def test_weights_that_are_not_finite(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def see(self: object, tokens: torch.Tensor, see: Any) -> None:
        see(0, Attention(torch.full((1, 2, 3, 3), torch.nan), lambda: None, None))  # type: ignore[arg-type,return-value]

    monkeypatch.setattr(FairseqEncoder, "attend", see)
    analyse(small, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "layer 0", "not finite")
