"""P is that of the model, for each kind of model."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary, encoders
from torch import Tensor

from linformer_fairseq.analysis.encoder import Attention, Encoder, Heads
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.conversion.building import build_dense
from linformer_fairseq.conversion.huggingface_source import read_huggingface
from linformer_fairseq.conversion.task import masked_lm
from linformer_fairseq.core.reference import reference_attention
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.tokenizers import find_tokenizer
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.encoding import TextEncoder
from tests.conversion.sources import N, make_fairseq, make_huggingface, padded_batch, rewrite_config
from tests.models import make_pretrained

CPU = torch.device("cpu")


def attend(encoder: Encoder, tokens: Tensor) -> list[tuple[Tensor, Heads]]:
    found: list[tuple[Tensor, Heads]] = []

    def see(layer: int, attention: Attention) -> None:
        assert layer == len(found)
        found.append((attention.probabilities, attention.heads()))

    encoder.attend(tokens, see)
    assert len(found) == encoder.layers
    return found


def check_heads(found: list[tuple[Tensor, Heads]]) -> None:
    """P and the output follow from queries, keys and values."""
    for p, (query, key, value, output) in found:
        expected = (query @ key.transpose(-2, -1) / query.size(-1) ** 0.5).softmax(-1)
        torch.testing.assert_close(p, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(output, p @ value, atol=1e-5, rtol=1e-4)


def check_untrained(encoder: Encoder, tokens: Tensor, found: list[tuple[Tensor, Heads]]) -> None:
    first, again, other = (attend(encoder.untrained(seed), tokens) for seed in (1, 1, 2))
    for (p, _), (q, _), (r, _), (trained, _) in zip(first, again, other, found, strict=True):
        assert torch.equal(p, q) and not torch.equal(p, r)
        assert p.shape == trained.shape and p.std() < 0.5 * trained.std()


def test_fairseq(roberta: Path, tmp_path: Path) -> None:
    encoder = load_fairseq(roberta / "model.pt", roberta, CPU)
    assert (encoder.kind, encoder.is_dense) == ("fairseq RoBERTa", True)
    assert (encoder.layers, encoder.heads, encoder.max_positions) == (2, 2, N)
    model = make_fairseq(tmp_path / "again")
    tokens = full_batch(model.encoder.sentence_encoder.embed_tokens.num_embeddings)
    attentions = [layer.self_attn for layer in model.encoder.sentence_encoder.layers]
    inputs: list[Tensor] = []
    for attention in attentions:
        attention.register_forward_pre_hook(
            lambda module, given, named: inputs.append(named["query"]), with_kwargs=True
        )
    with torch.no_grad():
        model(tokens)
        found = attend(encoder, tokens)
        for (p, _), attention, x in zip(found, attentions, list(inputs), strict=True):
            mean_of_heads = attention(query=x, key=x, value=x, need_weights=True)[1]
            torch.testing.assert_close(p.mean(1), mean_of_heads, atol=1e-5, rtol=1e-4)
    check_heads(found)
    check_untrained(encoder, tokens, found)


def full_batch(symbols: int) -> Tensor:
    """Three sequences without padding."""
    return padded_batch(symbols)[0].repeat(3, 1).random_(4, symbols, generator=torch.Generator().manual_seed(2))


def test_hugging_face_computes_what_the_conversion_does(tmp_path: Path) -> None:
    from linformer_fairseq.analysis.huggingface_encoder import load_huggingface

    make_huggingface(tmp_path / "hf", fast=True)
    encoder = load_huggingface(tmp_path / "hf", CPU)
    assert (encoder.kind, encoder.max_positions) == ("Hugging Face RoBERTa", N)
    (tmp_path / "fairseq").mkdir()
    source = read_huggingface(tmp_path / "hf", tmp_path / "fairseq")
    task = masked_lm(Dictionary.load(str(tmp_path / "fairseq/dict.txt")), N)
    encode = TextEncoder(
        encoders.build_bpe(Namespace(**find_tokenizer([tmp_path / "fairseq"]))), task.source_dictionary
    )
    words = "the value in a line"
    dense = FairseqEncoder(build_dense(source, task, N), task, encode._bpe, is_dense=True)
    theirs = torch.tensor([[encoder.first, *encoder.encode(words)[: N - 2], encoder.last]])
    ours = torch.tensor([[dense.first, *encode(words)[: N - 2], dense.last]])
    assert theirs.shape == ours.shape
    found = attend(encoder, theirs)
    for (p, _), (q, _) in zip(found, attend(dense, ours), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)
    check_heads(found)
    check_untrained(encoder, theirs, found)


def test_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from linformer_fairseq.analysis.huggingface_encoder import load_huggingface

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "value", "is", "empty", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=20, **sizes)
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification._from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    model.save_pretrained(tmp_path)
    encoder = load_huggingface(tmp_path, CPU)
    assert (encoder.kind, encoder.layers, encoder.heads, encoder.max_positions) == ("Hugging Face BERT", 3, 4, 20)
    assert (encoder.first, encoder.last, encoder.encode("The value is empty").tolist()) == (2, 3, [5, 6, 7, 8])
    names = [encoder.token(symbol) for symbol in (2, *encoder.encode("the values"), 3)]
    assert names == ["[CLS]", "the", "value", "##s", "[SEP]"]
    tokens = torch.tensor([[2, 5, 6, 7, 8, 3], [2, 8, 7, 6, 5, 5]])
    found = attend(encoder, tokens)
    with torch.no_grad():
        expected = model(tokens, output_attentions=True).attentions
    for (p, _), q in zip(found, expected, strict=True):
        torch.testing.assert_close(p, q)
    check_heads(found)
    check_untrained(encoder, tokens, found)


def test_a_linformer_shows_p_bar(tmp_path: Path) -> None:
    make_pretrained(tmp_path, n=128)
    encoder = load_fairseq(tmp_path / "model/model.safetensors", tmp_path / "model", CPU)
    assert (encoder.kind, encoder.is_dense, encoder.max_positions) == ("Linformer", False, 128)
    hub = LinformerRobertaModel.from_pretrained(tmp_path / "model").eval()
    tokens = full_batch(40).repeat(1, 6)[:, :128]
    found = attend(encoder, tokens)
    with torch.no_grad():
        states = hub.extract_features(tokens, return_all_hiddens=True)
        for layer, state, (p, heads) in zip(hub.model.encoder.sentence_encoder.layers, states, found, strict=False):
            x = layer.self_attn_layer_norm(state) if layer.normalize_before else state
            out, expected = reference_attention(layer.self_attn, x)
            torch.testing.assert_close(p, torch.stack([torch.stack(heads) for heads in expected]), atol=1e-5, rtol=1e-4)
            joined = layer.self_attn.out_proj(heads.output.transpose(1, 2).flatten(2))
            torch.testing.assert_close(joined, out, atol=1e-5, rtol=1e-4)


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    from linformer_fairseq.analysis.huggingface_encoder import load_huggingface

    make_huggingface(tmp_path / "hf")
    rewrite_config(tmp_path / "hf", model_type="gpt2")
    with pytest.raises(UserError, match="model_type 'gpt2'; expected an encoder: roberta or bert"):
        load_huggingface(tmp_path / "hf", CPU)
    rewrite_config(tmp_path / "hf", model_type="roberta", num_hidden_layers=3)
    with pytest.raises(UserError, match=r"its weights lack encoder\.layer\.2"):
        load_huggingface(tmp_path / "hf", CPU)
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"\xff" * 500)
    with pytest.raises(UserError, match=r"hf: Error while deserializing header"):
        load_huggingface(tmp_path / "hf", CPU)
