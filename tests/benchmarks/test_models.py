"""Every model gives features of each token, and the baselines are a RoBERTa."""

from __future__ import annotations

import sys

import pytest
import torch

from benchmarks.efficiency.errors import BenchmarkError
from benchmarks.efficiency.models import hugging_face
from benchmarks.efficiency.models.registry import MODELS, build, missing
from benchmarks.efficiency.sizes import Sizes

TINY = Sizes(layers=2, width=16, ffn=64, heads=2, vocabulary=50)
SLOW = {"linformer_compiled", "linformer_core_compiled", "roberta_hf"}


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
    assert not model.training and not any(p.requires_grad for p in model.parameters())


def test_stored_and_fused_attention_are_the_same_model():
    models = [
        build(name, TINY, 12, None, torch.float32, torch.device("cpu"))
        for name in ("roberta_materialised", "roberta_sdpa_core")
    ]
    models[1].load_state_dict(models[0].state_dict())
    tokens = torch.randint(4, 49, (2, 12), generator=torch.Generator().manual_seed(1))
    tokens[1, 8:] = 1  # padding
    first, second = (model(tokens) for model in models)
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first[1, :8], models[0](tokens[1:, :8])[0])


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
    with pytest.raises(BenchmarkError, match="_torchaudio.*linformer doctor"):
        hugging_face.roberta(TINY, 12, None)
