"""With k = n, and E = F = identity, a converted model computes what its source does."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from linformer_fairseq import cli
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.weight_names import OUTPUT, OUTPUT_BIAS, POSITIONS, TOKENS
from linformer_fairseq.models import LinformerRobertaModel
from scripts.reproduce_tools import dense_small
from tests.conversion.sources import (
    N,
    huggingface_logits,
    load,
    logits,
    make_fairseq,
    make_huggingface,
    padded_batch,
)

pytestmark = pytest.mark.filterwarnings("ignore:projected_dim")


def convert(source: Path, out: Path, *words: object, k: int = N) -> Any:
    """Convert by the command, and load the result."""
    assert cli.main(["convert", str(source), str(out), "--projected-dim", str(k), *map(str, words)]) == 0
    return load(out)


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 0.5, "these weights would show nothing"
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("sharing", ["layerwise", "key_value", "headwise", "none"])
def test_fairseq_by_a_convolution(tmp_path: Path, sharing: str) -> None:
    source = make_fairseq(tmp_path / "source")
    hub = convert(tmp_path / "source", tmp_path / "out", "--sharing", sharing)
    tokens = padded_batch(len(hub.task.source_dictionary))
    same(logits(hub.model, tokens), logits(source, tokens))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "arch"),
    [
        (["--untie-weights-roberta"], "roberta"),
        ([], "roberta_prenorm"),
        (["--activation-fn", "relu"], "roberta"),
        (["--spectral-norm-classification-head"], "roberta"),  # there is none
    ],
    ids=["untied", "prenorm", "relu", "spectral norm"],
)
def test_other_robertas_of_fairseq_by_means(tmp_path: Path, flags: list[str], arch: str) -> None:
    source = make_fairseq(tmp_path / "source", *flags, arch=arch)
    hub = convert(tmp_path / "source" / "model.pt", tmp_path / "out", "--projection", "mean_pool")
    tokens = padded_batch(len(hub.task.source_dictionary))
    same(logits(hub.model, tokens), logits(source, tokens))


def test_a_checkpoint_of_2019(tmp_path: Path) -> None:
    """Other names of weights, q, k and v in one matrix, options as a Namespace, and half precision."""
    source = make_fairseq(tmp_path / "source")
    state = read_checkpoint(tmp_path / "source" / "model.pt")
    weights = {name.replace("layernorm_embedding", "emb_layer_norm"): t for name, t in state["model"].items()}
    for layer in range(2):
        name = f"encoder.sentence_encoder.layers.{layer}.self_attn."
        for kind in ("weight", "bias"):
            weights[f"{name}in_proj_{kind}"] = torch.cat([weights.pop(f"{name}{part}_proj.{kind}") for part in "qkv"])
    old = {name.replace("encoder.", "decoder.", 1): tensor.half() for name, tensor in weights.items()}
    options = Namespace(**{**vars(state["cfg"]["model"]), "arch": "roberta_base", "task": "masked_lm"})
    args = {"args": options, "cfg": None, "model": old}
    torch.save({**state, **args}, tmp_path / "source" / "model.pt")
    hub = convert(tmp_path / "source", tmp_path / "out")
    tokens = padded_batch(len(hub.task.source_dictionary))
    same(logits(hub.model, tokens), logits(source.half().float(), tokens))


def test_rows_for_a_dictionarys_padding_are_left_out(tmp_path: Path) -> None:
    """fairseq's RoBERTa has them, for which there is no token; a Linformer has not."""
    plain = make_fairseq(tmp_path / "source")
    path = tmp_path / "source" / "dict.txt"
    dictionary.pad(path)
    state = read_checkpoint(tmp_path / "source" / "model.pt")
    more = dictionary.embedding_rows(path, linformer=False) - dictionary.embedding_rows(path, linformer=True)
    assert more > 0
    for name in (TOKENS, OUTPUT, OUTPUT_BIAS):
        weight = state["model"][name]
        state["model"][name] = torch.cat([weight, weight.new_ones(more, *weight.shape[1:])])
    torch.save(state, tmp_path / "source" / "model.pt")
    hub = convert(tmp_path / "source", tmp_path / "out")
    tokens = padded_batch(len(plain.encoder.lm_head.bias))
    same(logits(hub.model, tokens), logits(plain, tokens))


@pytest.mark.parametrize("start", ["window_means", "dct"])
@pytest.mark.parametrize("sharing", ["layerwise", "none"])
def test_a_linear_identity_on_full_blocks(tmp_path: Path, start: str, sharing: str) -> None:
    """Of shorter inputs a matrix makes k rows, some tokens more often than others; a length that divides n is exact."""
    source = make_fairseq(tmp_path / "source")
    words = ["--projection", "linear", "--start", start, "--sharing", sharing]
    hub = convert(tmp_path / "source", tmp_path / "out", *words)
    weights = [weight for name, weight in hub.model.named_parameters() if ".proj_" in name]
    assert weights
    for weight in weights:
        torch.testing.assert_close(weight, torch.eye(N).expand_as(weight), atol=1e-6, rtol=0)
    tokens = padded_batch(len(hub.task.source_dictionary))
    for length in (N, N // 2):
        same(logits(hub.model, tokens[:1, :length]), logits(source, tokens[:1, :length]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fast": True},
        {"shuffled": True},
        {"shuffled": True, "fast": True},
        {"type_vocab_size": 2, "tie_word_embeddings": False},
    ],
    ids=["usual", "tokenizer.json", "shuffled", "shuffled tokenizer.json", "two types, untied"],
)
def test_hugging_face(tmp_path: Path, options: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    source = make_huggingface(tmp_path / "source", **options)
    hub = convert(tmp_path / "source", tmp_path / "out")
    symbols = hub.task.source_dictionary.symbols
    order = torch.tensor(their_ids(tmp_path / "source", tmp_path / "out", symbols))
    if "shuffled" not in options:
        assert order.tolist() == list(range(len(symbols)))
    tokens = padded_batch(len(symbols))
    same(logits(hub.model, tokens), huggingface_logits(source, tokens, order))
    if not options.get("fast"):
        return
    text = "the value in the café, 漢字  naïve\ttabs"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "source" / "tokenizer.json"))
    encoded = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert order[hub.encode(text)[1:-1]].tolist() == encoded
    assert hub.decode(hub.encode(text)) == text


def test_hugging_faces_older_files_in_half_precision(tmp_path: Path) -> None:
    """They have a constant among the weights; positions and token type are added in full precision."""
    pytest.importorskip("transformers")
    source = make_huggingface(tmp_path / "source")
    path = tmp_path / "source" / "model.safetensors"
    weights = {name: tensor.half() for name, tensor in load_file(path).items()}
    weights["roberta.embeddings.position_ids"] = torch.arange(N + 2).unsqueeze(0)
    save_file(weights, path, {"format": "pt"})
    hub = convert(tmp_path / "source", tmp_path / "out")
    embeddings = source.half().float().roberta.embeddings
    expected = embeddings.position_embeddings.weight[2:] + embeddings.token_type_embeddings.weight[0]
    assert torch.equal(hub.model.state_dict()[POSITIONS][2:], expected)


def test_what_is_different_in_a_tokenizer_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "plain", fast=True)
    convert(tmp_path / "plain", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert record["notes"] == []
    make_huggingface(tmp_path / "source", fast=True, vocab_size=record["source"]["symbols"] + 5)
    path = tmp_path / "source" / "tokenizer.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found["pre_tokenizer"]["add_prefix_space"] = True
    path.write_text(json.dumps(found), encoding="utf-8")
    convert(tmp_path / "source", tmp_path / "noted")
    blank, rows = json.loads((tmp_path / "noted" / "conversion.json").read_text())["notes"]
    assert "puts a blank before a text" in blank and rows.startswith("5 rows of the token embeddings are left out")
    said = capsys.readouterr().out
    assert f"note: {blank}\n" in said and f"note: {rows}\n" in said


def their_ids(source: Path, out: Path, symbols: list[str]) -> list[int]:
    """Hugging Face's id of each of our symbols, by their texts."""
    fast = source / "tokenizer.json"
    if fast.exists():
        found = json.loads(fast.read_text(encoding="utf-8"))
        ids = found["model"]["vocab"] | {token["content"]: token["id"] for token in found["added_tokens"]}
    else:
        ids = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
    pieces = {str(number): piece for piece, number in json.loads((out / "encoder.json").read_text()).items()}
    left = [number for token, number in ids.items() if token not in pieces.values() and token not in symbols]
    return [ids[pieces.get(symbol, symbol)] if pieces.get(symbol, symbol) in ids else left.pop() for symbol in symbols]


def test_dropout_of_hugging_face_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "source", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    model = convert(tmp_path / "source", tmp_path / "out").cfg.model
    assert (model.dropout, model.attention_dropout) == (0.2, 0.3)


def test_positions_beyond_the_sources_are_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_fairseq(tmp_path / "source")
    n = 2 * N + 5
    hub = convert(tmp_path / "source", tmp_path / "out", "--max-positions", n, k=n)
    assert hub.model.max_positions() == n
    rows, first = hub.model.encoder.sentence_encoder.embed_positions.weight, dictionary.PAD + 1
    theirs = source.encoder.sentence_encoder.embed_positions.weight
    assert torch.equal(rows[: first + N], theirs)
    assert torch.equal(rows[first + N : first + 2 * N], theirs[first:])
    assert torch.equal(rows[first + 2 * N :], theirs[first : first + 5])
    tokens = padded_batch(len(hub.task.source_dictionary))
    same(logits(hub.model, tokens), logits(source, tokens))
    assert f"the source's {N}, repeated" in capsys.readouterr().out
    assert "repeated" in json.loads((tmp_path / "out" / "conversion.json").read_text())["position_embeddings"]


def test_fewer_positions_are_the_first_ones(tmp_path: Path) -> None:
    source = make_fairseq(tmp_path / "source")
    hub = convert(tmp_path / "source", tmp_path / "out", "--max-positions", 16, k=16)
    tokens = padded_batch(len(hub.task.source_dictionary), 16)
    same(logits(hub.model, tokens), logits(source, tokens))
    with pytest.raises(ValueError, match="at most 16"):
        hub.extract_features(torch.full((17,), 5))


def test_inputs_of_up_to_k_tokens_are_the_sources(tmp_path: Path) -> None:
    """The windows of a convolution fit the input."""
    source = make_fairseq(tmp_path / "source")
    hub = convert(tmp_path / "source", tmp_path / "out", k=8)
    tokens = padded_batch(len(hub.task.source_dictionary))
    same(logits(hub.model, tokens[1:2, :7]), logits(source, tokens[1:2, :7]))
    assert not torch.allclose(logits(hub.model, tokens), logits(source, tokens), atol=1e-2)


@pytest.mark.slow
def test_a_pretrained_model(tmp_path: Path) -> None:
    """linformer-small as a dense RoBERTa, which it is for up to 64 tokens, its smallest k, and converted again."""
    pytest.importorskip("sentencepiece")
    dense_small.main([str(tmp_path / "dense")])
    hub = convert(tmp_path / "dense", tmp_path / "out", k=64)
    small = LinformerRobertaModel.from_pretrained("linformer-small").eval()
    tokens = small.encode(["He opened the door and walked into the room.", "The book on the table."])
    same(logits(hub.model, tokens), logits(small.model, tokens))
    assert hub.fill_mask("He opened the <mask> and walked into the room.", topk=1)[0][2] == " door"
