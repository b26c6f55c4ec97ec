"""``attention`` of the hub interface: P of the reference, and which tokens its columns stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linformer_fairseq.core.reference import reference_attention
from linformer_fairseq.models import LinformerRobertaModel
from tests.models import LONG, TEXTS, K, N, make_classifier, make_pretrained

KINDS = {
    "default": ["--projected-dim", str(K)],
    "linear": ["--projection", "linear", "--projected-dim", "[8, 4]"],
    "prenorm": ["--encoder-normalize-before", "--projected-dim", str(K)],
    "heads": ["--projection", "mean_pool", "--sharing", "none", "--projected-dim", "[[8, 4], [2, 16]]"],
}


def load(folder: Path, *flags: str) -> Any:
    return LinformerRobertaModel.from_pretrained(make_pretrained(folder, *flags))  # in training mode, with dropout


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_p_of_the_layer_and_head(kind: str, tmp_path: Path) -> None:
    hub = load(tmp_path, *KINDS[kind])
    text = TEXTS[0]
    tokens = hub.encode(text)[:N]
    hub.eval()
    with torch.no_grad():
        states = hub.extract_features(tokens, return_all_hiddens=True)
    encoder = hub.model.encoder.sentence_encoder
    for layer, one in enumerate(encoder.layers):
        source = one.self_attn_layer_norm(states[layer]) if kind == "prenorm" else states[layer]
        _, [heads] = reference_attention(one.self_attn, source)
        for head, expected in enumerate(heads):
            hub.train()
            found = hub.attention(text, layer, head)
            assert hub.model.training, "left as it was"
            np.testing.assert_allclose(found.probabilities, expected.detach().numpy(), atol=1e-5)
            assert len(found.tokens) == len(tokens) == len(found.probabilities)


def test_columns(tmp_path: Path) -> None:
    """Windows have ceil(T / k) tokens; the rows of a linear projection have all."""
    long = load(tmp_path / "default", *KINDS["default"]).attention(LONG, 0, 0)
    assert (long.probabilities.shape, long.window, long.long) == ((N, K), N // K, True)
    heads = load(tmp_path / "heads", *KINDS["heads"])
    sizes = {(layer, head): heads.attention(LONG, layer, head) for layer in (0, 1) for head in (0, 1)}
    assert {place: (one.probabilities.shape[1], one.window) for place, one in sizes.items()} == {
        (0, 0): (8, 8),
        (0, 1): (4, 16),
        (1, 0): (2, 32),
        (1, 1): (16, 4),
    }
    linear = load(tmp_path / "linear", *KINDS["linear"])
    assert [linear.attention("the value", layer, 0).window for layer in (0, 1)] == [None, None]
    assert [linear.attention("the value", layer, 0).probabilities.shape[1] for layer in (0, 1)] == [8, 4]


def test_tokens_are_those_of_the_text_and_the_mask(tmp_path: Path) -> None:
    hub = load(tmp_path, *KINDS["default"])
    found = hub.attention("the value is <mask>", 0, 0)
    assert found.tokens[0] == "<s>" and found.tokens[-2:] == ["<mask>", "</s>"]
    assert "".join(found.tokens[1:-2]) == " the value is"
    assert found.window == 1, "one column for each token"
    with pytest.raises(ValueError, match="found 2"):
        hub.attention("<mask> <mask>", 0, 0)


def test_a_classifier_reads_what_it_classifies(tmp_path: Path) -> None:
    hub: Any = LinformerRobertaModel.from_pretrained(make_classifier(tmp_path))
    assert "<mask>" not in hub.attention("the <mask>", 0, 0).tokens, "no mask in classification"
    assert hub.attention(("the value", "a list"), 0, 0).tokens.count("</s>") == 3
    whole, tail = hub.attention(LONG, 0, 0, "windows"), hub.attention(LONG, 0, 0, "tail")
    assert whole.parts > 1 and whole.long and len(whole.tokens) == N
    assert tail.parts == 1 and LONG.endswith("".join(tail.tokens[-6:-1]).strip())


@pytest.mark.parametrize(("layer", "head", "words"), [(2, 0, "layer=2"), (-1, 0, "layer=-1"), (0, 2, "head=2")])
def test_what_is_not_there(layer: int, head: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        load(tmp_path, *KINDS["default"]).attention("a", layer, head)
