"""Every model gives features of each token, and the baselines are a RoBERTa."""

from __future__ import annotations

import sys

import pytest
import torch

from benchmarks.efficiency.models import peers
from benchmarks.efficiency.models.build import build
from benchmarks.efficiency.models.registry import MODELS, missing
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.core import layer
from linformer_fairseq.files.errors import UserError

TINY = Sizes(layers=2, width=16, ffn=64, heads=2, vocabulary=50)
SLOW = {"linformer_compiled", "linformer_core_compiled", "roberta_sdpa_core_compiled", "roberta_hf"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS])
def test_features(name):
    if reason := missing(name):
        pytest.skip(reason)
    if MODELS[name].compiled and " " in torch.__file__:
        pytest.skip("torch.compile cannot work in an environment in a folder with a blank")
    model = build(name, TINY, 12, 4 if MODELS[name].projects else None, torch.float32, torch.device("cpu"))
    tokens = torch.randint(4, 49, (3, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        features = model(tokens)
        changed = tokens.clone()
        changed[:, -1] = (changed[:, -1] - 4 + 1) % 45 + 4
        other = model(changed)
    assert features.shape == (3, 12, TINY.width)
    assert torch.isfinite(features).all()
    assert not torch.allclose(features[:, 0], other[:, 0])  # the first position sees the last
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters()), "frozen, fairseq's is many times slower"


def in_blocks(state):
    """The weights of the plain dense model under the names of the one in blocks."""
    names = {"attention.out_proj": "self_attn.out_proj", "attention_norm": "self_attn_layer_norm"}
    found = {}
    for key, value in state.items():
        for old, new in names.items():
            key = key.replace(old, new)
        if key.startswith("layers."):
            key = key.replace(".norm.", ".final_layer_norm.")
        if "attention.in_proj" in key:
            for part, third in zip("qkv", value.chunk(3), strict=True):
                found[key.replace("attention.in_proj", f"self_attn.{part}_proj")] = third
        else:
            found[key] = value
    return found


@pytest.mark.parametrize("name", ["roberta_sdpa_core", "roberta_sdpa_core_blocks"])
def test_stored_and_fused_attention_are_the_same_model(name, monkeypatch):
    monkeypatch.setattr(layer, "_block_size", lambda x: 5)
    models = [build(one, TINY, 12, None, torch.float32, torch.device("cpu")) for one in ("roberta_materialised", name)]
    state = models[0].state_dict()
    models[1].load_state_dict(state if name == "roberta_sdpa_core" else in_blocks(state))
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    tokens[1, 8:] = 1  # padding
    with torch.no_grad():
        first, second = (model(tokens) for model in models)
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first[1, :8], models[0](tokens[1:, :8])[0])


def _weighted(out):
    """A loss; the sum of squares behind a layer norm would always be the same, and gradients only rounding."""
    return (out * torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(2))).sum()


def test_both_forms_of_the_dense_rival_have_the_same_gradients():
    """Of the output and of the weights of the layers."""
    names = ("roberta_sdpa_core", "roberta_sdpa_core_blocks")
    plain, blocks = (build(name, TINY, 12, None, torch.float64, torch.device("cpu")) for name in names)
    blocks.load_state_dict(in_blocks(plain.state_dict()))
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    tokens[1, 8:] = 1
    for model in (plain, blocks):
        _weighted(model(tokens)[tokens.ne(1)]).backward()
    wanted = in_blocks({name: parameter.grad for name, parameter in plain.named_parameters()})
    torch.testing.assert_close({name: parameter.grad for name, parameter in blocks.named_parameters()}, wanted)


OTHER_ATTENTION = ["linformer_core_mean_pool", "performer", "nystrom", "recurrent"]


def built(name, k=4, n=12, dtype=torch.float32):
    return build(name, TINY, n, k if MODELS[name].projects else None, dtype, torch.device("cpu"))


@pytest.mark.parametrize("name", OTHER_ATTENTION)
@pytest.mark.parametrize("tokens", [2, 5, 9, 11])
def test_padding_changes_nothing(name, tokens, monkeypatch):
    monkeypatch.setattr(layer, "_block_size", lambda x: 5)
    model = built(name)
    ids = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    padded = ids.clone()
    padded[1, tokens:] = 1
    with torch.no_grad():
        together, alone, full = model(padded), model(ids[1:, :tokens]), model(ids[:1])
    torch.testing.assert_close(together[1, :tokens], alone[0])
    torch.testing.assert_close(together[0], full[0])


@pytest.mark.parametrize("name", OTHER_ATTENTION)
def test_gradients_reach_all_that_is_trained(name):
    model = built(name)
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    tokens[1, 8:] = 1
    _weighted(model(tokens)[tokens.ne(1)]).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), path
        unseen = name != "performer" and path.endswith("k_proj.bias")  # by a softmax
        assert unseen or parameter.grad.abs().sum() > 1e-3, path


@pytest.mark.parametrize("name", OTHER_ATTENTION)
def test_half_precision_is_near_to_full(name):
    exact, half = built(name), built(name, dtype=torch.bfloat16)
    half.load_state_dict(exact.state_dict())
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(half(tokens).float(), exact(tokens), atol=0.06, rtol=0.02)


@pytest.mark.parametrize(("name", "k", "tolerance"), [("performer", 8192, 0.05), ("nystrom", 12, 0.01)])
def test_other_attention_approaches_dense_attention(name, k, tolerance):
    """The layer with the same weights; the 12 positions are 12 segments of Nystrom attention with a k of 12."""
    dense, other = built("roberta_sdpa_core_blocks"), built(name, k, n=24)
    state = dense.state_dict() | {key: value for key, value in other.state_dict().items() if "features" in key}
    state["embeddings.positions.weight"] = other.embeddings.positions.weight
    other.load_state_dict(state)
    dense.embeddings.positions.weight.data = other.embeddings.positions.weight.data[:12]
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        x, y = (model.embeddings(tokens) for model in (dense, other))
        first, second = (
            model.layers[0].self_attn.attend(z, model.layers[0].self_attn.project(z, None))
            for model, z in ((dense, x), (other, y))
        )
    assert (second - first).norm() < tolerance * first.norm()


@pytest.mark.usefixtures("fairseq")
def test_the_examples_linformer_has_the_k_that_is_asked_for():
    model = build("fairseq_linformer", TINY, 60, 30, torch.float32, torch.device("cpu"))
    shapes = {
        name: parameter.shape for name, parameter in model.named_parameters() if name.endswith("compress_k.weight")
    }
    assert set(shapes.values()) == {(30, 60)}
    with pytest.raises(UserError, match="has k = 20 or 15, not 16"):
        build("fairseq_linformer", TINY, 60, 16, torch.float32, torch.device("cpu"))


def test_the_examples_linformer_leaves_ours_registered():
    if reason := missing("fairseq_linformer"):
        pytest.skip(reason)
    from fairseq.models import MODEL_REGISTRY

    build("fairseq_linformer", TINY, 12, 4, torch.float32, torch.device("cpu"))
    assert MODEL_REGISTRY["linformer_roberta"].__module__.startswith("linformer_fairseq.")


def test_a_transformers_that_does_not_import_is_said(monkeypatch):
    class Broken:
        """As it is beside a torchaudio that does not load."""

        def __getattr__(self, name):
            raise OSError("Could not load this library: _torchaudio.abi3.so")

    monkeypatch.setitem(sys.modules, "transformers", Broken())
    with pytest.raises(UserError, match="_torchaudio.*linformer doctor"):
        peers.hugging_face(TINY, 12, None)
