"""The answers of the demo are those of the hub interface; what cannot be answered is named."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from linformer_fairseq.demo.answers import ROWS, Answers
from linformer_fairseq.demo.answers import TEXTS as MOST
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.models import LinformerRobertaModel
from tests.messages import says
from tests.models import LONG, TEXTS, K, N, make_classifier, make_pretrained

HEAD = "sentence_classification_head"
MASKED = "the <mask> is empty"


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = make_pretrained(tmp_path_factory.mktemp("pretrained"))
    return Answers(LinformerRobertaModel.from_pretrained(folder), "mine", None)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = make_classifier(tmp_path_factory.mktemp("classifier"))
    return Answers(LinformerRobertaModel.from_pretrained(folder), "mine", HEAD)


def answer(answers: Answers, question: str, **value: object) -> Any:
    """Through JSON, as the server does."""
    return json.loads(json.dumps(answers.routes()[f"/api/{question}"](value), allow_nan=False))


def test_only_what_a_model_can_do(pretrained: Answers, classifier: Answers) -> None:
    assert pretrained.routes().keys() == {"/api/fill-mask", "/api/attention"}
    assert classifier.routes().keys() == {"/api/classify", "/api/attention"}


def test_facts(pretrained: Answers, classifier: Answers) -> None:
    found = pretrained.model()
    assert json.loads(json.dumps(found))["name"] == "mine"
    assert (found["n"], found["k"], found["layers"], found["heads"]) == (N, [K], 2, 2)
    assert (found["projection"], found["sharing"], found["labels"]) == ("convolution", "layerwise", [])
    assert classifier.model()["labels"] == ["0", "1"]
    assert (found["cut"], found["longest"]) == ("head", N)
    assert found["routes"] == sorted(pretrained.routes())


def test_a_model_that_is_no_linformer_has_no_map(pretrained: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(pretrained._hub), "attention_settings", None)
    assert pretrained.routes().keys() == {"/api/fill-mask"}
    assert "k" not in pretrained.model()


def test_masks(pretrained: Answers) -> None:
    found = answer(pretrained, "fill-mask", text=" the <mask>\nis empty ", top=3)["candidates"]
    expected = pretrained._hub.fill_mask(MASKED, topk=3)
    assert [one["token"] for one in found] == [token for _, _, token in expected]
    assert [one["probability"] for one in found] == pytest.approx([probability for _, probability, _ in expected])


def test_classes(classifier: Answers) -> None:
    (found,) = answer(classifier, "classify", text=TEXTS[0])["texts"]
    (expected,) = classifier._hub.classify([TEXTS[0]])
    assert (found["label"], found["long"], found["windows"]) == (expected.label, False, 1)
    assert found["probabilities"] == pytest.approx(expected.probabilities.tolist())
    (found,) = answer(classifier, "classify", text=TEXTS[0], second=TEXTS[1])["texts"]
    (pair,) = classifier._hub.classify([(TEXTS[0], TEXTS[1])])
    assert found["probabilities"] == pytest.approx(pair.probabilities.tolist())
    assert pair.probability != expected.probability, "this model would show nothing"


def test_texts_unlike_those_of_the_training(classifier: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(classifier, "classify", text="a", second="b")["unlike"] == ""
    for task, value, words in [
        ("sst2", {"second": "b"}, ["1 of 1 texts", "pairs"]),
        ("sst2", {"text": "a\nb\tc\nd\te\n\n", "lines": True}, ["2 of 4 texts", "pairs"]),
        ("qnli", {}, ["1 of 1 texts", "single texts"]),
    ]:
        monkeypatch.setattr(classifier._hub, "inputs", TaskInputs(task=task))
        assert says(answer(classifier, "classify", **{"text": "a"} | value)["unlike"], *words, "mean nothing")
    monkeypatch.setattr(classifier._hub, "inputs", TaskInputs(task="sst2"))
    assert answer(classifier, "classify", text="a")["unlike"] == ""


def test_long_texts(classifier: Answers) -> None:
    by_long = {}
    for long in ("head", "tail", "windows"):
        (found,) = answer(classifier, "classify", text=LONG, long=long)["texts"]
        (expected,) = classifier._hub.classify([LONG], long=long)
        assert found["probabilities"] == pytest.approx(expected.probabilities.tolist())
        assert found["long"] and found["windows"] == expected.windows
        assert len(found["text"]) == 100 and found["text"].endswith("…")
        by_long[long] = found["probability"]
    assert len(set(by_long.values())) == 3


def test_lines_with_their_errors(classifier: Answers) -> None:
    text = f"{TEXTS[0]}\r\n\n{TEXTS[1]}\t{TEXTS[2]}\na\tb\tc\n"
    one, empty, pair, three = answer(classifier, "classify", text=text, lines=True)["texts"]
    expected = list(classifier._hub.classify([TEXTS[0], (TEXTS[1], TEXTS[2])]))
    assert [one["probability"], pair["probability"]] == pytest.approx([found.probability for found in expected])
    assert [found["id"] for found in (one, empty, pair, three)] == ["1", "2", "3", "4"]
    assert "no text" in empty["error"] and "3 columns" in three["error"]
    assert TEXTS[0].startswith(one["text"][:50])


@pytest.mark.parametrize("text", [TEXTS[0][:20], LONG])
def test_attention(classifier: Answers, text: str) -> None:
    hub = classifier._hub
    expected = hub.attention(text, layer=1, head=1)
    found = answer(classifier, "attention", text=text, layer=1, head=1)
    assert found["tokens"] == expected.tokens
    np.testing.assert_allclose(found["weights"], expected.probabilities[:ROWS], atol=1e-6)
    assert found["largest"] == pytest.approx(float(expected.probabilities.max()))
    assert (found["window"], found["long"], found["parts"]) == (expected.window, expected.long, 1)
    last = answer(classifier, "attention", text=text, layer=1, head=1, first=len(found["tokens"]) - 1)
    np.testing.assert_allclose(last["weights"], expected.probabilities[-1:], atol=1e-6)
    other = answer(classifier, "attention", text=text, second=TEXTS[3][:20], layer=1, head=1)
    assert other["tokens"] != found["tokens"] and other["tokens"].count("</s>") == 3


def test_attention_of_the_first_line(classifier: Answers) -> None:
    first = answer(classifier, "attention", text=TEXTS[0])
    assert answer(classifier, "attention", text=f"{TEXTS[0]}\n" + "a\n" * MOST, lines=True) == first
    pair = answer(classifier, "attention", text="a\tb\nc", lines=True)
    assert pair == answer(classifier, "attention", text="a", second="b")


@pytest.mark.parametrize(
    ("question", "value", "words"),
    [
        ("fill-mask", {}, ["text", "missing"]),
        ("fill-mask", {"text": 7}, ["text", "7"]),
        ("fill-mask", {"text": "no mask"}, ["<mask>", "found 0"]),
        ("fill-mask", {"text": "<mask> <mask>"}, ["<mask>", "found 2"]),
        ("fill-mask", {"text": "<mask> " + LONG}, ["at most", N]),
        ("fill-mask", {"text": MASKED, "top": 0}, ["0", "1 to 100"]),
        ("fill-mask", {"text": MASKED, "top": 101}, ["101", "1 to 100"]),
        ("fill-mask", {"text": MASKED, "top": True}, ["top", "True"]),
        ("fill-mask", {"text": " \n"}, ["no text"]),
        ("classify", {"text": "a", "long": "middle"}, ["middle", "windows"]),
        ("classify", {"text": "", "lines": True}, ["no text"]),
        ("classify", {"text": "a\n" * (MOST + 1), "lines": True}, [f"{MOST:,}", "linformer predict"]),
        ("classify", {"text": "a", "second": "b", "lines": True}, ["second text"]),
        ("classify", {"text": "a", "second": ["b"]}, ["second", "['b']"]),
        ("attention", {"text": "a", "layer": 2}, ["layer=2", "0 to 1"]),
        ("attention", {"text": "a", "head": -1}, ["head=-1", "0 to 1"]),
        ("attention", {"text": "a", "first": 99}, ["first=99"]),
        ("attention", {"text": "a", "first": -1}, ["first=-1"]),
        ("attention", {"text": " "}, ["no text"]),
        ("attention", {"text": "\na", "lines": True}, ["no text"]),
        ("attention", {"text": "", "lines": True}, ["no text"]),
        ("attention", {"text": "a", "second": "b", "lines": True}, ["second text"]),
    ],
)
def test_errors(
    pretrained: Answers, classifier: Answers, question: str, value: dict[str, object], words: list[object]
) -> None:
    with pytest.raises(ValueError) as error:
        answer(classifier if question == "classify" else pretrained, question, **value)
    assert says(str(error.value), *words), error.value


def test_what_is_no_object(pretrained: Answers) -> None:
    for value in ([], None, "text", 1.5):
        with pytest.raises(ValueError, match="expected an object"):
            pretrained.fill_mask(value)
