"""Exported graphs compute what the model computes, at any batch size, length and padding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linformer_fairseq.checkpoints.released_folder import ONNX, PROGRAM
from linformer_fairseq.core import build_attention_layers, prepare_export
from linformer_fairseq.exporting.program import export_program, program_of
from linformer_fairseq.files.errors import UserError
from tests.core.cases import EVERY_CASE, padding_mask, randomise, settings_of
from tests.exporting.test_models import in_both, options_of, padded

SHAPES = (((20, 13, 1), 20), ((9, 2), 9), ((6,), 6), ((5, 5, 1, 2), 5), ((2,), 2), ((3, 1), 17))
"""Tokens of each sequence, and T; some lengths are below k and some above it."""


@pytest.mark.parametrize("gradients", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "gradients"])
@pytest.mark.parametrize("case", EVERY_CASE)
def test_the_attention_for_graphs_computes_the_same(case: str, gradients: bool) -> None:
    """With gradients, windows are gathered for each sequence, as in a graph, and not one size after the other."""
    settings = settings_of(case)
    layers, shared = build_attention_layers(settings)
    randomise(layers)
    if shared is not None:
        randomise(shared)
    inputs = [
        (torch.randn(len(lengths), total, settings.embed_dim), padding_mask(list(lengths), total))
        for lengths, total in SHAPES
    ]
    with torch.set_grad_enabled(gradients):
        expected = [[layer(x, mask)[0] for layer in layers] for x, mask in inputs]
        prepare_export(layers)  # which have not registered the projection that they share
        prepared = [m.fixed_rows for m in [*layers.modules(), shared] if hasattr(m, "fixed_rows")]
        assert len(prepared) > len(layers) and all(prepared), "the layers and their projections"
        for (x, mask), outputs in zip(inputs, expected, strict=True):
            for layer, output in zip(layers, outputs, strict=True):
                torch.testing.assert_close(layer(x, mask)[0][~mask], output[~mask], atol=1e-5, rtol=1e-5)
                if not mask.any():
                    torch.testing.assert_close(layer(x)[0], output, atol=1e-5, rtol=1e-5)


def test_the_attention_for_graphs_has_no_more_rows_than_tokens() -> None:
    settings = settings_of("headwise-convolution-affine-stretch-overlap2", num_layers=1, projected_dim=7)
    (layer,), _ = build_attention_layers(settings)
    prepare_export(layer)
    for length, rows in ((3, 3), (7, 7), (9, 7), (13, 7)):
        x, mask = torch.randn(2, length, settings.embed_dim), padding_mask([length, 1], length)
        assert layer.project(x, mask).keys.size(2) == layer.project(x).keys.size(2) == rows


def compare(run: Any, model: torch.nn.Module, atol: float) -> None:
    for lengths, total in SHAPES:
        tokens = padded(model.config.vocab_size, lengths, total)
        mask = tokens.ne(1)
        logits: Tensor = run(tokens, mask.long())
        torch.testing.assert_close(logits[mask], model(tokens, mask).logits[mask], atol=atol, rtol=atol)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["layerwise-convolution-affine-stretch", "none-linear", "headwise-linear-affine-stretch", "none-max_pool"]
)
@torch.no_grad()
def test_one_program_serves_all_lengths(case: str) -> None:
    _, model, _ = in_both(**options_of(case))
    program = program_of(model).module()
    compare(program, model, 1e-5)


def test_a_model_for_one_length_has_no_graph() -> None:
    _, model, _ = in_both(**options_of("none-linear") | {"max_positions": 2, "projected_dim": 1})
    with pytest.raises(UserError, match="n = 2 "):
        program_of(model)


@pytest.fixture(scope="module")
def reference(exported: Path) -> Any:
    from linformer_fairseq.exporting.hugging_face.modeling_linformer import LinformerForMaskedLM

    return LinformerForMaskedLM.from_pretrained(exported).eval()


def batches() -> list[tuple[Tensor, Tensor]]:
    """linformer-small's k is 256, 128 and 64, and its n 512."""
    shapes = (((512, 300), 512), ((130, 7, 129), 130), ((40,), 40), ((2, 5), 5))
    batches = [padded(8000, lengths, total) for lengths, total in shapes]
    return [(tokens, tokens.ne(1)) for tokens in batches]


@pytest.mark.slow
@torch.no_grad()
def test_the_shipped_model_as_a_program(reference: Any, tmp_path: Path) -> None:
    export_program("linformer-small", tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert not {"auto_map", "model_type"} & config.keys()  # transformers looks for code of theirs, which is not there
    assert config["max_position_embeddings"] == 512
    program = torch.export.load(tmp_path / "out" / PROGRAM).module()
    for tokens, mask in batches():
        expected = reference(tokens, mask).logits[mask]
        torch.testing.assert_close(program(tokens, mask.long())[mask], expected, atol=1e-4, rtol=0)


@pytest.mark.slow
@torch.no_grad()
def test_the_shipped_model_in_onnx(reference: Any, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from linformer_fairseq.exporting.onnx import INT8, export_onnx

    export_onnx("linformer-small", tmp_path / "out", int8=True)
    session, int8 = (runtime.InferenceSession(tmp_path / "out" / name) for name in (ONNX, INT8))
    for tokens, mask in batches():
        inputs = {"input_ids": tokens.numpy(), "attention_mask": mask.long().numpy()}
        expected = reference(tokens, mask).logits[mask]
        found = torch.from_numpy(session.run(None, inputs)[0])[mask]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        rough = torch.from_numpy(int8.run(None, inputs)[0])[mask]
        assert torch.corrcoef(torch.stack([rough.flatten(), expected.flatten()]))[0, 1] > 0.99
    assert (tmp_path / "out" / INT8).stat().st_size < (tmp_path / "out" / ONNX).stat().st_size / 2
