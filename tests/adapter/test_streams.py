"""``classify``, ``embed`` and ``fill_masks`` of the hub interface, beside its methods for single texts."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import encoders
from sentencepiece import SentencePieceTrainer

from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.core import PROJECTIONS
from linformer_fairseq.files.cuts import WINDOWS
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.files.tokenizers import find_tokenizer
from linformer_fairseq.models import LinformerRobertaModel, count_parameters, encoding, quantize
from linformer_fairseq.models.encoding import TextEncoder, masked_pieces, pieces
from linformer_fairseq.prediction.fitting import Frame, fit
from linformer_fairseq.prediction.options import POOLINGS
from tests.adapter.building import directly
from tests.data_prep.small_tokenizers import lines, make_gpt2, make_sentencepiece
from tests.models import LONG, N, make_classifier, make_pretrained, write_checkpoint

SIZES = ("--max-positions", "512", "--tokens-per-sample", "512")
TEXTS = lines(60)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A classifier of two classes with n = 64."""
    return LinformerRobertaModel.from_pretrained(make_classifier(tmp_path_factory.mktemp("streams")))  # training mode


def one_by_one(hub: Any, *tokens: torch.Tensor) -> np.ndarray:
    """Probabilities by the interface's other methods."""
    hub.eval()
    with torch.no_grad():
        found = [hub.predict(HEAD, row).exp()[0].numpy() for row in tokens]
    hub.train()
    return np.stack(found)


HEAD = "sentence_classification_head"


def test_classes_are_those_of_single_texts_in_order(hub: Any) -> None:
    texts = sorted(TEXTS, key=lambda line: len(line) * 7 % 11)  # lengths mixed
    found = list(hub.classify(iter(texts), batch_tokens=200))
    expected = one_by_one(hub, *(hub.encode(one)[:N] for one in texts))
    np.testing.assert_allclose(np.stack([one.probabilities for one in found]), expected, atol=1e-5)
    assert [one.label for one in found] == [str(row.argmax()) for row in expected]
    assert [one.probability for one in found] == [one.probabilities.max() for one in found]
    assert {one.label for one in found} == {"0", "1"}, "this model would show nothing"
    assert hub.model.training, "left as it was"


def test_pairs(hub: Any) -> None:
    first, second = TEXTS[0], TEXTS[1]
    (found,) = hub.classify([(first, second)])
    np.testing.assert_allclose(found.probabilities, one_by_one(hub, hub.encode(first, second))[0], atol=1e-5)


def test_long_texts_are_truncated_or_divided(hub: Any) -> None:
    ids = hub.encode(LONG)
    assert len(ids) > 2 * N
    for long, row in (("head", [*ids[: N - 1], 2]), ("tail", [0, *ids[-N + 1 :]])):
        (found,) = hub.classify([LONG], long=long)
        np.testing.assert_allclose(found.probabilities, one_by_one(hub, torch.tensor(row))[0], atol=1e-5)
        assert found.long and found.windows == 1
    short, found = hub.classify([TEXTS[0][:20], LONG], long="windows")
    rows = fit([ids[1:-1].numpy()], Frame(0, 2), N, "windows").rows
    expected = one_by_one(hub, *map(torch.from_numpy, rows))
    np.testing.assert_allclose(found.probabilities, expected.mean(axis=0), atol=1e-5)
    assert found.long and found.windows == len(rows) > 2
    assert not short.long and short.windows == 1


def test_a_text_is_read_until_the_input_is_full(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_PIECE", 40)
    (found,) = hub.classify([LONG], long="head")
    expected = one_by_one(hub, torch.tensor([*hub.encode(LONG)[: N - 1], 2]))[0]
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-5)


def test_a_model_without_classes_reads_texts_as_no_task_does(tmp_path: Path) -> None:
    folder = make_pretrained(tmp_path)
    TaskInputs("imdb", 32, "tail").write(folder)
    assert LinformerRobertaModel.from_pretrained(folder).inputs == TaskInputs()


def test_results_of_half_precision_are_in_single(tmp_path: Path) -> None:
    model = LinformerRobertaModel.from_pretrained(make_classifier(tmp_path)).bfloat16()
    (found,) = model.classify(TEXTS[:1])
    assert found.probabilities.dtype == np.float32 and found.probabilities.sum() == pytest.approx(1, abs=1e-6)
    for pooling in POOLINGS:
        assert next(model.embed(TEXTS[:1], pooling=pooling)).vectors.dtype == np.float32


@pytest.mark.parametrize("long", ["tail", "head+tail", "windows"])
def test_no_end_of_a_text_is_lost(hub: Any, long: str) -> None:
    """Texts are encoded in pieces of 10,000 characters."""
    text = f"{LONG} " * (12_000 // len(LONG)) + "the list is empty"
    (found,) = hub.classify([text], long=long)
    rows = fit([hub.encode(text)[1:-1].numpy()], Frame(0, 2), N, long).rows
    expected = one_by_one(hub, *map(torch.from_numpy, rows)).mean(axis=0)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-5)
    assert found.windows == len(rows) and (long != "windows" or len(rows) > 12_000 / 10 / N)


def test_embeddings_are_pooled_features(hub: Any) -> None:
    hub.eval()
    with torch.no_grad():
        features = [hub.extract_features(hub.encode(one)[:N])[0].numpy() for one in TEXTS[:9]]
    hub.train()
    pooled = {"mean": lambda x: x.mean(axis=0), "max": lambda x: x.max(axis=0), "first": lambda x: x[0]}
    for pooling in POOLINGS:
        found = list(hub.embed(TEXTS[:9], pooling=pooling, batch_tokens=100))
        for one, x in zip(found, features, strict=True):
            np.testing.assert_allclose(one.vectors, pooled.get(pooling, lambda x: x)(x), atol=1e-4)
    assert found[0].tokens[0] == "<s>" and found[0].tokens[-1] == "</s>" and len(found[0].tokens) == len(features[0])
    assert found[0].vectors.shape[1] == hub.width


def test_a_model_of_windows_reads_texts_in_windows(tmp_path: Path) -> None:
    data = make_classifier(tmp_path).parent / "task"
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["options"] |= {"max_positions": N, "cut": WINDOWS}
    (data / "manifest.json").write_text(json.dumps(manifest))
    release(tmp_path / "checkpoint.pt", data, tmp_path / "windows")
    hub = LinformerRobertaModel.from_pretrained(tmp_path / "windows")
    pair = (LONG, TEXTS[0])
    (found,), (expected,), (head,) = (hub.classify([pair], long=long) for long in (None, WINDOWS, "head"))
    assert found.windows == expected.windows > 2 and head.windows == 1
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    with pytest.raises(ValueError, match="pooling=tokens with long=windows"):
        next(hub.embed([LONG], pooling="tokens"))
    assert next(hub.embed([LONG], pooling="tokens", long="head")).long


def test_vectors_of_windows_are_averaged(hub: Any) -> None:
    (whole,) = hub.embed([LONG], long="windows", pooling="first")
    ids = hub.encode(LONG)[1:-1].numpy()
    rows = fit([ids], Frame(0, 2), N, "windows").rows
    hub.eval()
    with torch.no_grad():
        parts = [hub.extract_features(torch.from_numpy(row))[0, 0].numpy() for row in rows]
    hub.train()
    np.testing.assert_allclose(whole.vectors, np.mean(parts, axis=0), atol=1e-4)


def test_masks_are_filled_in_batches(hub: Any) -> None:
    texts = [f"the {'a value ' * number}<mask> is empty" for number in (0, 9, 3)]
    for found, one in zip(hub.fill_masks(texts, topk=3, batch_tokens=30), texts, strict=True):
        expected = hub.fill_mask(one, topk=3)
        assert [(a, c) for a, _, c in found] == [(a, c) for a, _, c in expected]
        assert [p for _, p, _ in found] == pytest.approx([p for _, p, _ in expected], abs=1e-5)


def test_errors_are_raised_or_kept(hub: Any) -> None:
    texts = ["the <mask>", "no mask", ValueError("line 3"), "<mask> " + "value " * N]
    good, *wrong = hub.fill_masks(texts, keep_errors=True)
    assert len(good) == 5
    for error, words in zip(wrong, ["found 0", "line 3", f"at most {N}"], strict=True):
        assert isinstance(error, ValueError) and words in str(error)
    with pytest.raises(ValueError, match="found 0"):
        list(hub.fill_masks(texts))
    with pytest.raises(ValueError, match="3 texts"):
        list(hub.classify([("a", "b", "c")]))


def test_a_text_with_a_mask_may_have_n_tokens(hub: Any) -> None:
    longest = "<mask>" + " the" * (N - 3)  # and <s> and </s>
    assert len(next(hub.fill_masks([longest]))) == 5
    with pytest.raises(ValueError, match=f"more tokens than the model was built for, at most {N}"):
        next(hub.fill_masks([f"{longest} the"]))


def test_a_text_too_long_for_a_mask_is_refused_before_it_is_tokenized(
    hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub.bpe, "encode", lambda text: pytest.fail(f"{len(text)} characters were tokenized"))
    with pytest.raises(ValueError, match="characters"):
        next(hub.fill_masks(["x" * (100 * N) + "<mask>"]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda hub: hub.classify(["a"], head="topic"), f"'topic'.*{HEAD}"),
        (lambda hub: hub.classify(["a"], long="middle"), "long=middle"),
        (lambda hub: hub.embed(["a"], pooling="sum"), "pooling=sum"),
        (lambda hub: hub.classify("good"), "list of texts"),
        (lambda hub: hub.embed("good"), "list of texts"),
        (lambda hub: hub.fill_masks("<mask>"), "list of texts"),
        (lambda hub: hub.embed(["a"], batch_tokens=0), "batch_tokens=0"),
        (lambda hub: hub.classify(["\u3000"]), "without tokens"),
        (lambda hub: hub.classify([("a", " ")]), "no second text"),
        (lambda hub: hub.classify(["a\0b"]), "a zero character at character 1"),
        (lambda hub: hub.classify(["ab\ud800"]), "character 2 is half of a surrogate pair"),
        (lambda hub: hub.fill_masks(["\ud800 <mask>"]), "surrogate"),
        (lambda hub: hub.embed(["a"], pooling="tokens", long="windows"), "pooling=tokens with long=windows"),
        (lambda hub: hub.fill_masks(["<mask>"], topk=0), "topk=0"),
        (lambda hub: hub.fill_masks(["<mask>"], topk=hub.candidates + 1), "topk=.*expected 1 to"),
    ],
)
def test_wrong_options_are_named(hub: Any, call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        next(call(hub))


def test_a_head_without_names_has_numbers() -> None:
    folder = "linformer-small"
    model = LinformerRobertaModel.from_pretrained(folder)
    with pytest.raises(ValueError, match="name a head; this model has: none"):
        next(model.classify(["a"]))
    model.register_classification_head("topic", num_classes=3)
    assert next(model.classify(["a text"])).label in {"0", "1", "2"}
    model.register_classification_head("number", num_classes=1)
    with pytest.raises(ValueError, match=r"'number' has a single output.*return_logits=True"):
        next(model.classify(["a text"], head="number"))


@pytest.mark.parametrize("text", [None, 3, ["a", None], b"bytes"])
def test_what_is_no_text_is_said(hub: Any, text: Any) -> None:
    with pytest.raises(ValueError, match="expected a text or a pair of texts, found "):
        list(hub.classify([text]))


def test_tokens_of_gpt2_are_its_pieces(tmp_path: Path) -> None:
    data = make_gpt2(tmp_path / "tokenizer")
    write_checkpoint(data, tmp_path / "model.pt", *SIZES, task="masked_lm")
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", data)
    (found,) = hub.embed(["to the end"], pooling="tokens")
    assert found.tokens[0] == "<s>" and found.tokens[-1] == "</s>"
    assert "".join(found.tokens[1:-1]).replace("\u0120", " ") == "to the end"


def test_what_fills_a_padded_dictionary_of_gpt2_is_a_token_too(tmp_path: Path) -> None:
    data = make_gpt2(tmp_path / "tokenizer")
    write_checkpoint(data, tmp_path / "model.pt", *SIZES, task="masked_lm")
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", data)
    dictionary = hub.task.source_dictionary
    filler = dictionary.add_symbol("madeupword0000")
    assert encoding.token_text(filler, hub.bpe, dictionary) == "madeupword0000"
    assert encoding.piece_of(filler, hub.bpe, dictionary) == "madeupword0000"


def test_nothing_and_padding(hub: Any) -> None:
    padding = hub.task.source_dictionary.pad()
    assert hub.decode(torch.full((3,), padding)) == hub.decode(torch.tensor([], dtype=torch.long)) == ""
    with pytest.raises(ValueError, match="empty list"):
        hub.extract_features([])


@pytest.mark.filterwarnings("ignore:.*not below max_positions")
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_a_model_with_k_above_n_can_be_loaded(projection: str, tmp_path: Path) -> None:
    folder = make_pretrained(tmp_path, "--projection", projection, "--projected-dim", str(2 * N))
    model = LinformerRobertaModel.from_pretrained(folder)
    assert model.attention_settings.projected_dim == 2 * N


def test_a_new_head_of_a_finetuned_model_has_numbers() -> None:
    """The label dictionary is that of the head that the checkpoint has."""
    model = LinformerRobertaModel.from_pretrained("linformer-small-sst2")
    model.register_classification_head("topic", num_classes=4)
    assert model.labels("topic") == ["0", "1", "2", "3"]
    assert model.labels(HEAD) == ["0", "1"]
    model.register_classification_head("older", num_classes=3)
    model._stored_heads |= {"older"}  # as in a checkpoint that was finetuned on one task after the other
    assert model.labels("older") == ["0", "1", "2"]
    model.register_classification_head(HEAD, num_classes=5)  # in place of the stored one
    assert model.labels(HEAD) == list("01234")


@pytest.fixture(params=[make_sentencepiece, make_gpt2])
def tokenized(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A hub interface with either kind of tokenizer."""
    data = request.param(tmp_path / "tokenizer")
    path = write_checkpoint(data, tmp_path / "model.pt", *SIZES, task="masked_lm")
    return LinformerRobertaModel.from_pretrained(tmp_path, path.name, data)


def test_a_long_text_is_encoded_in_pieces_to_the_same_ids(tokenized: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TextEncoder(tokenized.bpe, tokenized.task.source_dictionary)
    line = f"{LONG}  two blanks   three naïve " + "漢" * 12 + " end"
    expected = tokenized.encode(line)[1:-1].tolist()
    for size in (*range(30, 60), 100, 10_000):
        monkeypatch.setattr(encoding, "_PIECE", size)
        assert encoder(line).tolist() == expected
    assert encoder("").tolist() == []
    monkeypatch.setattr(encoding, "_PIECE", 40)
    some = encoder(line, at_most=20).tolist()
    assert 20 <= len(some) < 60 and some == expected[: len(some)]
    assert 20 <= len(masked_pieces(line, tokenized.bpe, at_most=20)) < 60
    assert len(encoder("x" * 1000)) > 0, "a word longer than a piece ends, too"
    assert encoding._end_of_piece("a " + "x" * 1000, 1) == 41, "and behind a space"
    assert encoding._end_of_piece("a" + " b" * 17 + " " * 7 + "c", 0) == 33, "not between spaces"


@pytest.mark.parametrize("strips", [False, True])
def test_no_blank_is_lost_between_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strips: bool) -> None:
    """Also if sentencepiece puts none before a text, and leaves out that which is there."""
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=100,
        add_dummy_prefix=False,
        remove_extra_whitespaces=strips,
        minloglevel=2,
    )
    bpe = encoders.build_bpe(Namespace(bpe="sentencepiece", sentencepiece_model=str(tmp_path / "spm.model")))
    expected = pieces(LONG, bpe)
    monkeypatch.setattr(encoding, "_PIECE", 40)
    assert masked_pieces(LONG, bpe) == expected


def test_words_are_not_cached_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_gpt2(tmp_path / "tokenizer")
    path = write_checkpoint(data, tmp_path / "model.pt", *SIZES, task="masked_lm")
    hub = LinformerRobertaModel.from_pretrained(tmp_path, path.name, data)
    monkeypatch.setattr(encoding, "_CACHED_WORDS", 50)

    def texts() -> Iterator[str]:
        for number in range(500):
            assert len(hub.bpe.bpe.cache) <= 60
            yield f"word{number} and{number}"

    assert len(list(hub.embed(texts()))) == 500
    hub.bpe.bpe.cache.clear()
    assert len(list(hub.fill_masks((f"{text} <mask>" for text in texts()), topk=1))) == 500


def test_the_space_before_a_mask_is_that_of_its_token(tokenized: Any) -> None:
    bpe = tokenized.bpe
    assert masked_pieces("to the <mask> end", bpe) == [*pieces("to the", bpe), "<mask>", *pieces(" end", bpe)]


@pytest.mark.parametrize("after", ["😀", "日本 and", "“and”", " 日本 and", "and"])
def test_characters_behind_a_mask_are_kept(tmp_path: Path, after: str) -> None:
    """Without pieces for bytes, unknown characters in a row are one piece."""
    bpe = encoders.build_bpe(Namespace(**find_tokenizer([make_sentencepiece(tmp_path / "spm", byte_fallback=False)])))
    found = masked_pieces(f"the <mask>{after}", bpe)
    assert found[: found.index("<mask>") + 1] == ["▁the", "<mask>"]
    assert "".join(found[found.index("<mask>") + 1 :]) == after.replace(" ", "▁")


def test_a_word_of_any_length_ends_soon_behind_a_mask(tokenized: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_PIECE", 100)
    longest = 0
    encode = tokenized.bpe.encode

    def see(text: str) -> str:
        nonlocal longest
        longest = max(longest, len(text))
        return str(encode(text))

    monkeypatch.setattr(tokenized.bpe, "encode", see)
    with pytest.raises(ValueError, match="more tokens"):
        list(tokenized.fill_masks(["<mask> " + "xy" * 2000], topk=1))
    assert longest <= 102


def test_int8_is_of_the_layers_that_compute_every_position() -> None:
    sizes = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2}
    model = directly(N, projected_dim=8, **sizes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    quantize(model)
    assert count_parameters(model) == parameters
    rounded = {"self_attn.q_proj", "self_attn.out_proj", "fc1", "fc2"}
    for layer in model.encoder.sentence_encoder.layers:
        kinds = {name: type(module) for name, module in layer.named_modules()}
        assert {name for name, kind in kinds.items() if kind is torch.ao.nn.quantized.dynamic.Linear} == rounded
        assert kinds["self_attn.k_proj"] is kinds["self_attn.v_proj"] is torch.nn.Linear


def test_int8_is_close() -> None:
    exact = LinformerRobertaModel.from_pretrained("linformer-small")
    rounded = LinformerRobertaModel.from_pretrained("linformer-small").eval()
    quantize(rounded.model)
    assert not any(module.training for module in rounded.modules())
    texts = ["He opened the door and walked into the room.", "The book was first published in 1920. " * 30]
    for one, other in zip(exact.embed(texts), rounded.embed(texts), strict=True):
        a, b = one.vectors, other.vectors
        assert not np.array_equal(a, b)
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.99
    with pytest.raises(ValueError, match="torch.bfloat16"):
        quantize(exact.bfloat16().model)
