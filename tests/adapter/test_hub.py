"""The hub interface, on a small model saved to disk and a sentencepiece model trained in the test."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.encoding import pieces
from tests.adapter.building import from_hydra
from tests.checkpoint_files import save

TEXT = "The quick brown fox jumps over the lazy dog. Linear attention reads long documents. "
MODEL = {
    "_name": "linformer_roberta_tiny",
    "max_positions": 64,
    "projected_dim": 16,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(model folder, data folder)."""
    sentencepiece = pytest.importorskip("sentencepiece")
    data = tmp_path_factory.mktemp("data")
    corpus = data / "corpus.txt"
    corpus.write_text((TEXT + "\n") * 30)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(data / "sentencepiece.bpe"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(str(data / "sentencepiece.bpe.model"))
    dictionary = Dictionary()
    for piece in (processor.id_to_piece(i) for i in range(3, len(processor))):
        dictionary.add_symbol(piece)
    dictionary.save(str(data / "dict.txt"))
    torch.manual_seed(0)
    cfg, _, model = from_hydra(data, MODEL, {"tokens_per_sample": 64})
    model.register_classification_head("topic", num_classes=3)
    folder = tmp_path_factory.mktemp("model")
    save(folder / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    return folder, data


@pytest.fixture(scope="module")
def hub(folders: tuple[Path, Path]) -> Any:
    return LinformerRobertaModel.from_pretrained(str(folders[0]), "model.pt", str(folders[1])).eval()


def test_text_round_trips_alone_and_in_batches(hub: Any) -> None:
    first, second = "The lazy dog reads.", "Linear attention jumps over long documents."
    tokens = hub.encode(first)
    assert tokens[0] == 0 and tokens[-1] == 2 and tokens.dim() == 1
    assert hub.decode(tokens) == first
    together = hub.encode([first, second])
    assert together.shape == (2, max(len(hub.encode(t)) for t in (first, second)))
    assert hub.decode(together) == [first, second]
    pair = hub.encode(first, second)
    assert (pair == 2).sum() == 3
    assert hub.decode(pair) == [first, second]
    with pytest.raises(ValueError, match="an empty list"):
        hub.encode([])
    assert hub.decode([hub.encode(first), pair]) == [first, [first, second]]
    for wrong, said in (
        ([(first, second)], "batch of pairs"),
        ([first, 5], "batch of pairs"),
        (5, "found 5"),
        (b"x", "b'x'"),
    ):
        with pytest.raises(ValueError, match=said):
            hub.encode(wrong)
    with pytest.raises(ValueError, match="batch of pairs"):
        hub.encode([first], second)


def test_separators_can_be_left_out(hub: Any) -> None:
    with_them, without = (hub.encode("The dog.", "The fox.", no_separator=leave_out) for leave_out in (False, True))
    end = len(hub.encode("The dog."))
    assert with_them.tolist() == [*without[:end].tolist(), 2, *without[end:].tolist()]


def test_features_of_a_batch_are_those_of_its_texts(hub: Any) -> None:
    texts = ["The dog.", "Linear attention reads long documents over the lazy dog."]
    rows = [hub.encode(text) for text in texts]
    expected = [hub.extract_features(row)[0] for row in rows]
    for batch in (hub.encode(texts), rows):
        features = hub.extract_features(batch)
        for i, row in enumerate(expected):
            torch.testing.assert_close(features[i, : len(row)], row, atol=1e-5, rtol=1e-5)
    layers = hub.extract_features(rows[0], return_all_hiddens=True)
    assert len(layers) == 3
    torch.testing.assert_close(layers[-1], expected[0].unsqueeze(0))
    with pytest.raises(ValueError, match=r"65 tokens.* at most 64; shorten it"):
        hub.extract_features(torch.full((65,), 5))
    assert hub.extract_features(torch.full((64,), 5)).shape == (1, 64, 64)
    with pytest.raises(ValueError, match="padded on the right.*pass a list of token tensors"):
        hub.extract_features(torch.tensor([[1, 0, 5, 2], [0, 5, 6, 2]]))
    for wrong in (-1, len(hub.task.source_dictionary)):
        with pytest.raises(
            ValueError, match=rf"{wrong} is not a token .* expected 0 to {len(hub.task.source_dictionary) - 1}"
        ):
            hub.extract_features(torch.tensor([0, wrong, 2]))
    for shape in ((), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"expected integers, \(T,\) or \(B, T\)"):
            hub.extract_features(torch.full(shape, 5))
    for shape in ((), (1, 2)):
        with pytest.raises(ValueError, match=rf"{re.escape(str(shape))}; expected integers, \(T,\) in a list"):
            hub.extract_features([torch.full(shape, 5)])
    for kind in (torch.float, torch.bool):
        for given in (torch.ones(3, dtype=kind), [rows[0], torch.ones(3, dtype=kind)]):
            with pytest.raises(ValueError, match=rf"{kind} .*; expected integers"):
                hub.extract_features(given)
    for kind in (torch.uint8, torch.int16):
        assert torch.equal(hub.extract_features(rows[0].to(kind)), layers[-1])


def test_fill_mask_ranks_whole_vocabulary(hub: Any) -> None:
    results = hub.fill_mask("The quick <mask> jumps.", topk=4)
    assert len(results) == 4
    probabilities = [p for _, p, _ in results]
    assert probabilities == sorted(probabilities, reverse=True) and 0 < sum(probabilities) <= 1
    for text, _, token in results:
        assert text == f"The quick{token} jumps." and "<mask>" not in text
    batch = hub.fill_mask(["The quick <mask> jumps.", "The <mask> reads."], topk=4)
    assert len(batch) == 2 and [found[::2] for found in batch[0]] == [found[::2] for found in results]
    assert [p for _, p, _ in batch[0]] == pytest.approx(probabilities, abs=1e-6)
    for text in ("no mask", "<mask> and <mask>"):
        with pytest.raises(ValueError, match="exactly one <mask>"):
            hub.fill_mask(text)


def test_fill_mask_asks_for_the_masked_token_of_the_whole_text(hub: Any) -> None:
    """Every token with its own probability, fairseq's own symbols left out, and no blank before the full stop."""
    dictionary = hub.task.source_dictionary
    left, stop, mask = hub.encode("The lazy dog reads long")[:-1], dictionary.index("."), dictionary.index("<mask>")
    whole = torch.cat([left, torch.tensor([mask, stop, dictionary.eos()])])
    with torch.no_grad():
        expected = hub.model(whole[None])[0][0, len(left)].softmax(0)
    found = hub.fill_mask("The lazy dog reads long <mask>.", topk=hub.candidates)
    special = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}
    words = {i: dictionary[i] for i in range(len(dictionary)) if dictionary[i] not in special}
    ranked = sorted(words, key=lambda i: -expected[i])
    assert [token for _, _, token in found] == [words[i].replace("\u2581", " ") for i in ranked]
    torch.testing.assert_close(torch.tensor([p for _, p, _ in found]), expected[ranked], atol=1e-6, rtol=1e-5)
    for text, _, token in hub.fill_mask("<mask> dog reads.", topk=hub.candidates):
        assert text == f"{token.lstrip()} dog reads."


def test_predict_with_loaded_and_new_heads(hub: Any) -> None:
    texts = ["The dog.", "Linear attention reads long documents."]
    together = hub.predict("topic", hub.encode(texts))
    assert together.shape == (2, 3)
    torch.testing.assert_close(together.exp().sum(1), torch.ones(2))
    for i, text in enumerate(texts):
        torch.testing.assert_close(hub.predict("topic", hub.encode(text))[0], together[i], atol=1e-5, rtol=1e-5)
    logits = hub.predict("topic", hub.encode(texts), return_logits=True)
    torch.testing.assert_close(logits.log_softmax(-1), together)
    assert not torch.allclose(logits, together)
    hub.register_classification_head("other", num_classes=5)
    assert hub.predict("other", hub.encode(texts)).shape == (2, 5)
    for given, found in (("a text", "'a text', a str"), (["a", "b"], "'a', a str"), ([0, 5, 2], "'0', a int")):
        with pytest.raises(ValueError, match=f"found {found}"):
            hub.predict("topic", given)
    with pytest.raises(ValueError, match="'third'.* topic, other"):
        hub.predict("third", hub.encode(texts))


def test_the_tokenizer_is_found_beside_the_model_too(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    for name in ("model.pt", "dict.txt", "sentencepiece.bpe.model"):
        source = model / name if name == "model.pt" else data / name
        (tmp_path / name).write_bytes(source.read_bytes())
    hub = LinformerRobertaModel.from_pretrained(tmp_path)
    assert hub.decode(hub.encode("The fox.")) == "The fox."


def test_the_tokenizer_of_the_data_comes_first(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    shutil.copyfile(model / "model.pt", tmp_path / "model.pt")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"fairseq would take this one")
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", data)
    assert hub.decode(hub.encode("The fox.")) == "The fox."


def test_only_blanks_separate_pieces() -> None:
    assert pieces("good\x85 film", SimpleNamespace(encode=lambda _: "_good \x85 _film")) == ["_good", "\x85", "_film"]


def test_missing_files_are_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    (tmp_path / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    with pytest.raises(FileNotFoundError, match=r"no tokenizer found in .*sentencepiece.bpe.model.*bpe=None"):
        LinformerRobertaModel.from_pretrained(str(model), "model.pt", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        LinformerRobertaModel.from_pretrained(str(model), "model.pt")
    assert f"no tokenizer found in {model}, {model / 'input0'}: expected" in str(caught.value)
    assert "Give the data folder, which has them, as the third argument of from_pretrained" in str(caught.value)
    without = LinformerRobertaModel.from_pretrained(str(model), "model.pt", str(tmp_path), bpe=None)
    assert without.extract_features(torch.tensor([0, 5, 2])).shape == (1, 3, 64)
    calls = [
        lambda: without.encode("a text"),
        lambda: without.decode(torch.tensor([0, 5, 2])),
        lambda: next(without.embed(["a text"])),
        lambda: without.fill_mask("a <mask>"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="bpe=None"):
            call()
    with pytest.raises(FileNotFoundError, match=r"absent.pt: no such file; .* the folder has: model.pt"):
        LinformerRobertaModel.from_pretrained(str(model), "absent.pt", str(data))
    with pytest.raises(ValueError, match="data='x': give the folder of the data as the third argument"):
        LinformerRobertaModel.from_pretrained(str(model), "model.pt", str(data), data="x")
    with pytest.raises(ValueError, match="checkpoint_file=model.pt:model.pt: expected the name of one file"):
        LinformerRobertaModel.from_pretrained(str(model), "model.pt:model.pt", str(data))
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; expected a folder"):
        LinformerRobertaModel.from_pretrained("./nowhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        LinformerRobertaModel.from_pretrained(str(tmp_path / "nowhere"), "model.pt", str(data))
    named = re.escape(f'name a checkpoint beside its folder, as in from_pretrained("{model}", "model.pt")')
    with pytest.raises(FileNotFoundError, match=named):
        LinformerRobertaModel.from_pretrained(str(model / "model.pt"))
    (tmp_path / "a:b").mkdir()
    with pytest.raises(ValueError, match=r"a:b: .*colon"):
        LinformerRobertaModel.from_pretrained(str(tmp_path / "a:b"))
    with pytest.raises(ValueError, match=r"linformer-small .* model.pt"):
        LinformerRobertaModel.from_pretrained("linformer-small", "model.pt")


def test_a_damaged_dictionary_is_named_with_its_line(folders: tuple[Path, Path], tmp_path: Path) -> None:
    data = Path(shutil.copytree(folders[1], tmp_path / "data"))
    with (data / "dict.txt").open("a") as stream:
        stream.write("a symbol without count\n")
    with pytest.raises(UserError, match=r"dict.txt, line \d+: expected a symbol, a blank and its count"):
        LinformerRobertaModel.from_pretrained(folders[0], "model.pt", data)


def test_an_unknown_tokenizer_is_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="bpe='sentencepieces': expected auto, None or one of .*sentencepiece"):
        LinformerRobertaModel.from_pretrained(folders[0], "model.pt", folders[1], bpe="sentencepieces")


@pytest.mark.parametrize("text", ["a \ud800", ["a", "\ud800"]])
def test_half_a_surrogate_pair_is_no_text(hub: Any, text: Any) -> None:
    with pytest.raises(ValueError, match="is half of a surrogate pair"):
        hub.encode(text)


def test_a_new_head_has_the_mode_type_and_device_of_the_model(folders: tuple[Path, Path]) -> None:
    model = LinformerRobertaModel.from_pretrained(folders[0], "model.pt", folders[1])
    for mode, name in ((False, "first"), (True, "second")):
        model.train(mode).register_classification_head(name, num_classes=2)
        assert model.model.classification_heads[name].training == mode
    model.bfloat16().register_classification_head("third", num_classes=2)
    assert model.predict("third", model.encode("The dog.")).shape == (1, 2)
    model.to("meta").register_classification_head("fourth", num_classes=2)
    assert model.model.classification_heads["fourth"].dense.weight.is_meta


@pytest.mark.parametrize("rows", [70, [[70, 4], [8, 70]]])
def test_a_model_with_more_rows_than_positions_is_loaded(folders: tuple[Path, Path], tmp_path: Path, rows: Any) -> None:
    options = {**MODEL, "projection": "linear", "sharing": "none", "projected_dim": rows, "encoder_attention_heads": 2}
    with pytest.warns(UserWarning, match="70"):
        cfg, _, model = from_hydra(folders[1], options, {"tokens_per_sample": 64})
    save(tmp_path / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    with pytest.warns(UserWarning, match="70"):
        loaded = LinformerRobertaModel.from_pretrained(str(tmp_path), "model.pt", str(folders[1]))
    assert loaded.model.encoder.settings == model.encoder.settings


def test_a_misspelled_option_is_refused_with_the_nearest(folders: tuple[Path, Path]) -> None:
    model, data = map(str, folders)
    with pytest.raises(ValueError, match="compile_encodr: .* did you mean compile_encoder"):
        LinformerRobertaModel.from_pretrained(model, "model.pt", data, compile_encodr=True)
    for other in ("batch_size", "lr", "optimizer"):  # of a run, not of the model
        with pytest.raises(ValueError, match=f"^{other}: "):
            LinformerRobertaModel.from_pretrained(model, "model.pt", data, **{other: 3})
    hub = LinformerRobertaModel.from_pretrained(model, "model.pt", data, dropout=0.3, tokens_per_sample=32)
    assert (hub.cfg.model.dropout, hub.cfg.task.tokens_per_sample) == (0.3, 32)


@pytest.mark.parametrize("name", ["compile_encoder", "checkpoint_activations", "offload_activations", "pad_vocabulary"])
def test_options_younger_than_the_checkpoint_can_be_given(
    folders: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    state = torch.load(folders[0] / "model.pt", weights_only=False)
    del state["cfg"]["model"][name]
    torch.save(state, tmp_path / "model.pt")
    for given in ({}, {name: True}):
        hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", folders[1], **given)
        assert getattr(hub.model.args, name) == bool(given)


def test_a_model_that_was_trained_compiled_is_not_compiled(folders: tuple[Path, Path], tmp_path: Path) -> None:
    cfg, _, model = from_hydra(folders[1], {**MODEL, "compile_encoder": True}, {"tokens_per_sample": 64})
    assert all(layer.compiled for layer in model.encoder.sentence_encoder.layers)
    save(tmp_path / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", folders[1])
    assert not any(layer.compiled for layer in hub.model.encoder.sentence_encoder.layers)


def test_given_options_come_before_what_is_found(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    [tokenizer] = data.glob("*.model")
    other = Path(shutil.copy(tokenizer, tmp_path / "other.model"))
    given = {"compile_encoder": True, "sentencepiece_model": str(other)}
    hub = LinformerRobertaModel.from_pretrained(model, "model.pt", data, **given)
    assert all(layer.compiled for layer in hub.model.encoder.sentence_encoder.layers)
    assert hub.cfg.bpe.sentencepiece_model == str(other)


def test_n_is_that_of_the_weights_whatever_the_blocks_of_the_task_are(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """A pretraining without ``max_positions`` takes n from its task, and does not store it."""
    model, data = folders
    state = torch.load(model / "model.pt", weights_only=False)
    state["cfg"]["model"]["max_positions"] = None
    torch.save(state, tmp_path / "model.pt")
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", data, tokens_per_sample=32)
    assert hub.cfg.model.max_positions == hub.model.max_positions() == 64
