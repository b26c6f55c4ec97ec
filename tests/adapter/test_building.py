"""Both entry points build one model; every option does what it says or is refused by name."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fairseq.models.roberta.model
import pytest
import torch
from fairseq.models.roberta import RobertaModel
from omegaconf import ValidationError

import linformer_fairseq.models.roberta
from linformer_fairseq.core import PROJECTIONS, SHARINGS, LinformerSettings, count_projection_parameters
from linformer_fairseq.models import LinformerRobertaConfig, LinformerRobertaModel
from linformer_fairseq.models.architectures import ARCHITECTURES
from linformer_fairseq.models.options import attention_settings, fill_defaults
from tests.adapter.building import WORDS, from_command_line, from_hydra, make_dictionary

SIZES = {"encoder_layers": 3, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_attention_heads": 4}
TINY = {**SIZES, "max_positions": 32, "projected_dim": 8}


def flags(options: dict[str, Any]) -> list[str]:
    """The command line's spelling of Hydra's options."""
    out = ["--arch", options.get("_name", "linformer_roberta")]
    for name, value in options.items():
        if name != "_name" and value is not False:
            out += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    return out


def shapes(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Models get shapes but no numbers: the large one has 1.4 GB."""
    for module in (fairseq.models.roberta.model, linformer_fairseq.models.roberta):
        monkeypatch.setattr(module, "init_bert_params", lambda module: None)
    with torch.device("meta"):
        yield


def build(data: Path, **changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {"_name": "linformer_roberta", **TINY, **changes}
    return from_hydra(data, options, {"tokens_per_sample": options["max_positions"]})[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        *({"sharing": sharing} for sharing in SHARINGS),
        *({"projection": p} for p in PROJECTIONS),
        {"projected_dim": "[8,4,2]", "projection": "linear"},
        {"projected_dim": "[[8,4,2,1],[1,2,3,4],[5,5,5,5]]", "sharing": "none"},
        {"freeze_projection": True, "projection_init": "normal"},
        {"encoder_normalize_before": True, "untie_weights_roberta": True},
        {"_name": "linformer_roberta_prenorm"},
        {"checkpoint_activations": True, "encoder_layerdrop": 0.1},
        {"quant_noise_pq": 0.1},
    ],
    ids=str,
)
def test_command_line_and_hydra_build_the_same_model(data: Path, changes: dict[str, Any]) -> None:
    options = {"_name": "linformer_roberta", **TINY, **changes}
    _, _, from_flags = from_command_line(data, *flags(options), "--tokens-per-sample", "32")
    _, _, from_config = from_hydra(data, options, {"tokens_per_sample": 32})
    assert shapes(from_flags) == shapes(from_config)
    assert from_flags.encoder.settings == from_config.encoder.settings
    left, right = vars(from_flags.args), vars(from_config.args)
    names = [field.name for field in fields(LinformerRobertaConfig) if not field.name.startswith(("_", "projected"))]
    assert {name: left[name] for name in names} == {name: right[name] for name in names}


SHAPES = {
    "linformer_roberta_base": (12, 768, 3072, 12, False, True),
    "linformer_roberta_large": (24, 1024, 4096, 16, False, True),
    "linformer_roberta_prenorm": (12, 768, 3072, 12, True, False),
    "linformer_roberta_small": (4, 256, 1024, 4, False, True),
    "linformer_roberta_tiny": (2, 64, 128, 2, False, True),
}
"""Layers, width, feed-forward width, heads, pre-norm, layer norm on the embeddings."""


@pytest.mark.slow
@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
@pytest.mark.usefixtures("without_memory")
def test_every_architecture_is_the_same_by_flag_and_by_name(data: Path, arch: str) -> None:
    by_flag = from_command_line(data, "--arch", arch, "--tokens-per-sample", "256")[2]
    by_name = from_hydra(data, {"_name": arch}, {"tokens_per_sample": 256})[2]
    assert shapes(by_flag) == shapes(by_name)
    layers, width, ffn, heads, before, norm = SHAPES[arch]
    encoder = by_flag.encoder.sentence_encoder
    assert len(encoder.layers) == layers
    for layer in encoder.layers:
        assert (layer.fc1.in_features, layer.fc1.out_features) == (width, ffn)
        assert (layer.self_attn.settings.num_heads, layer.normalize_before) == (heads, before)
    assert (encoder.layernorm_embedding is not None) == norm
    assert by_flag.encoder.settings.sharing == "layerwise"
    assert by_flag.encoder.settings.dims == ((128,) * heads,) * layers


@pytest.mark.usefixtures("without_memory")
def test_the_base_model_has_the_parameters_the_formula_gives(data: Path) -> None:
    for sharing in SHARINGS:
        model = from_hydra(
            data, {"_name": "linformer_roberta", "projection": "linear", "sharing": sharing}, {"tokens_per_sample": 512}
        )[2]
        c, ffn, layers, vocabulary, n = 768, 3072, 12, WORDS + 5, 512
        layer = 4 * (c * c + c) + 2 * c * ffn + ffn + c + 4 * c
        embeddings = vocabulary * c + (n + 2) * c + 2 * c
        head = c * c + c + 2 * c + vocabulary
        projections = count_projection_parameters(
            LinformerSettings(c, 12, layers, n, 128, sharing=sharing, projection="linear")
        )
        assert sum(p.numel() for p in model.parameters()) == layers * layer + embeddings + head + projections


def test_n_falls_back_to_the_tasks_length(data: Path) -> None:
    options = {"_name": "linformer_roberta", **SIZES, "projected_dim": 8, "projection": "linear"}
    model = from_hydra(data, options, {"tokens_per_sample": 48})[2]
    assert model.max_positions() == model.encoder.settings.max_positions == 48
    assert model.encoder.sentence_encoder.embed_positions.num_embeddings == 48 + 2
    assert model.encoder.sentence_encoder.proj_k.weight.shape == (8, 48)


def test_a_program_names_only_what_it_wants_otherwise() -> None:
    """A bare Namespace is enough, as it is for fairseq's RoBERTa; nothing is added to the caller's own."""
    dictionary = make_dictionary()
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: 48)
    given = Namespace(**SIZES, projected_dim=8, dropout=0.3)
    model = LinformerRobertaModel.build_model(given, task)
    assert vars(given) == {**SIZES, "projected_dim": 8, "dropout": 0.3}
    expected = {
        **{field.name: field.default for field in fields(LinformerRobertaConfig) if field.name != "_name"},
        **{"encoder_normalize_before": False, "layernorm_embedding": True, "max_positions": 48},
        **{"row_weights": "affine", "short_inputs": "stretch", "projection_init": "window_means"},
        **{"attention_start": "neighbours"},
        **vars(given),
    }
    assert {name: getattr(model.args, name) for name in expected} == expected
    model.register_classification_head("sentence", num_classes=3)
    tokens = torch.randint(4, len(dictionary), (2, 20))
    assert model(tokens, classification_head_name="sentence")[0].shape == (2, 3)

    roberta = RobertaModel.build_model(Namespace(**SIZES), task)
    assert (roberta.max_positions(), model.max_positions()) == (48, 48)
    common = (vars(roberta.args).keys() & expected.keys()) - {"dropout"}
    assert {name: getattr(roberta.args, name) for name in common} == {name: expected[name] for name in common}
    shorter = Namespace(**SIZES, projected_dim=8, tokens_per_sample=32)
    assert LinformerRobertaModel.build_model(shorter, task).max_positions() == 32
    old = SimpleNamespace(cfg=None, args=Namespace(tokens_per_sample=24), source_dictionary=dictionary)
    assert LinformerRobertaModel.build_model(given, old).max_positions() == 24  # as multilingual_masked_lm
    without = SimpleNamespace(cfg=None, args=None, source_dictionary=dictionary, max_positions=lambda: None)
    with pytest.raises(ValueError, match="the task has no length to take"):
        LinformerRobertaModel.build_model(given, without)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_attention_heads": 3}, "3 attention heads do not divide the width 16"),
        ({"projected_dim": "eight"}, "projected_dim is 'eight'"),
        ({"max_positions": 31}, "tokens_per_sample is 32, but model.max_positions .n. is 31"),
        ({"sharing": "none", "quant_noise_pq": 0.1}, "quant_noise_pq=0.1 does not work with sharing=none"),
        (
            {"projection": "mean_pool", "projected_dim": [[1, 2, 3, 4]] * 3, "quant_noise_pq": 0.1},
            "quant_noise_pq=0.1 does not work with sharing=layerwise",
        ),
        ({"quant_noise_scalar": 2.0}, "quant_noise_scalar=2.0: fairseq cannot"),
        ({"quant_noise_pq": 0.1, "checkpoint_activations": True}, "quant_noise_pq=0.1 with checkpoint_activations"),
        ({"quant_noise_pq": 0.1, "offload_activations": True}, "quant_noise_pq=0.1 with checkpoint_activations"),
        ({"spectral_norm_classification_head": True}, "spectral_norm_classification_head=True: fairseq cannot"),
        ({"encoder_layerdrop": 3.0}, "encoder_layerdrop=3.0: expected a number of at least 0 and below 1"),
        ({"encoder_layers_to_keep": "0,a"}, "encoder_layers_to_keep=0,a: expected numbers"),
        ({"activation_dropout": 1.5}, "activation_dropout=1.5: expected a number of at least 0 and below 1"),
        ({"encoder_ffn_embed_dim": 0}, "encoder_ffn_embed_dim=0: expected a whole number of at least 1"),
        ({"quant_noise_pq": 2.0}, "quant_noise_pq=2.0: expected a number of at least 0 and at most 1"),
        ({"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 7}, "block_size=7 does not divide encoder_embed_dim=16"),
        (
            {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 16, "encoder_ffn_embed_dim": 24},
            "block_size=16 does not divide encoder_ffn_embed_dim=24",
        ),
        (
            {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 0},
            "block_size=0: expected a whole number",
        ),
    ],
)
def test_contradictions_are_refused_when_the_model_is_built(data: Path, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_hydra(data, {"_name": "linformer_roberta", **TINY, **changes}, {"tokens_per_sample": 32})


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_papers_model_starts_as_roberta_does(projection: str) -> None:
    args = Namespace(projection=projection)
    fill_defaults(args)
    assert args.attention_start == ("random" if projection == "linear" else "neighbours")


def test_noise_with_offloading_is_refused_before_the_model_is_built() -> None:
    args = Namespace(**TINY, quant_noise_pq=0.1, offload_activations=True)
    fill_defaults(args)
    with pytest.raises(ValueError, match="offload_activations"):
        attention_settings(args)


def test_noise_goes_with_pooling_in_every_mode_of_sharing() -> None:
    args = Namespace(**TINY, quant_noise_pq=0.1, projection="mean_pool", sharing="none")
    fill_defaults(args)
    assert attention_settings(args).is_pooling


def test_an_unknown_choice_is_refused_by_both_entry_points(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        from_command_line(data, "--arch", "linformer_roberta", "--sharing", "everywhere")
    assert "--sharing: invalid choice: 'everywhere'" in capsys.readouterr().err
    with pytest.raises(ValidationError) as refused:
        build(data, sharing="everywhere")
    assert refused.value.full_key == "sharing"


def test_every_option_has_a_help_text() -> None:
    missing = [f.name for f in fields(LinformerRobertaConfig) if f.name != "_name" and not f.metadata.get("help")]
    assert not missing


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(
    ("init", "std"), [("xavier", (1 / (64 + 256)) ** 0.5), ("normal", 0.02), ("jl", 64**-0.5), (None, 320**-0.5)]
)
def test_the_spread_of_e_survives_the_full_build(data: Path, sharing: str, init: str | None, std: float) -> None:
    model = build(data, sharing=sharing, projection="linear", projection_init=init, max_positions=256, projected_dim=64)
    weights = [w for name, w in model.state_dict().items() if name.endswith(("proj_k.weight", "proj_v.weight"))]
    e = torch.cat([w.flatten() for w in weights if w.size(-1) == 256])
    assert e.std().item() == pytest.approx(std, rel=0.05)
    dense = model.encoder.sentence_encoder.layers[0].fc1.weight
    assert dense.std().item() == pytest.approx(0.02, rel=0.15), "RoBERTa's own initialisation must stay"


@pytest.mark.parametrize("size", [{}, {"encoder_embed_dim": 96, "encoder_attention_heads": 2}], ids=["tiny", "wider"])
def test_attention_can_start_at_the_neighbours(data: Path, size: dict[str, int]) -> None:
    """Half of it and more at most 8 positions away, at any width, where the usual start spreads it over all."""
    near = (torch.arange(64).unsqueeze(1) - torch.arange(64)).abs() <= 8
    share = {}
    for start in ("random", "neighbours"):
        rows = {"projection": "convolution", "row_weights": "affine", "projected_dim": 64}
        with pytest.warns(UserWarning, match="not below"):  # k = n: P is that of single positions
            model = build(data, attention_start=start, max_positions=64, **rows, **size).eval()
        encoder = model.encoder.sentence_encoder
        attention = encoder.layers[0].self_attn
        tokens = torch.randint(
            4, encoder.embed_tokens.num_embeddings, (4, 64), generator=torch.Generator().manual_seed(1)
        )
        x = encoder.layers[0].self_attn_layer_norm(encoder.forward_embedding(tokens)[0])
        weights = attention(x, need_weights=True)[1]
        share[start] = (weights * near)[:, : weights.size(1) // 2, 1:].sum(-1).mean().item()
        others = (weights * near)[:, weights.size(1) // 2 :].sum(-1).mean().item()
        assert others == pytest.approx(near.float().mean().item(), abs=0.05)
        tokens[:, 0] = 0
        x = encoder.layers[0].self_attn_layer_norm(encoder.forward_embedding(tokens)[0])
        first = attention(x, need_weights=True)[1][:, :, 0]
        torch.testing.assert_close(first, torch.full_like(first, 1 / 64), atol=0.005, rtol=0)
        padding = encoder.padding_idx
        assert encoder.embed_tokens.weight[padding + 1 :].std().item() == pytest.approx(0.02, rel=0.05)
        assert not encoder.embed_positions.weight[padding].any() and not encoder.embed_tokens.weight[padding].any()
    assert share["random"] == pytest.approx(near.float().mean().item(), abs=0.05)
    assert share["neighbours"] > 0.5
    positions = encoder.embed_positions.weight[padding + 2 :]
    assert positions.square().mean().sqrt().item() == pytest.approx(0.04 / 2**0.5, rel=0.05)
    query, _ = attention._split_heads(attention.q_proj(torch.randn(1, 1000, attention.q_proj.in_features))).split(
        attention.settings.num_heads // 2, dim=1
    )
    scores = query.square().sum(dim=-1) * attention.settings.head_dim**-0.5
    assert scores.mean().item() == pytest.approx(22.6, rel=0.25), "of positions with themselves"
    half = attention.q_proj.weight.size(0) // 2
    torch.testing.assert_close(attention.k_proj.weight[:half], attention.q_proj.weight[:half])
    assert encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.15), "the rest is as it was"


def test_attention_starts_at_the_neighbours_in_every_layer_with_layerdrop(data: Path) -> None:
    """In training mode, iterating over the layers leaves out some of them."""
    torch.manual_seed(1)
    model = build(data, attention_start="neighbours", projection="convolution", encoder_layers=6, encoder_layerdrop=0.5)
    layers = [layer.self_attn for layer in model.encoder.sentence_encoder.layers.children()]
    assert len(layers) == 6
    for layer in layers:
        half = layer.q_proj.weight.size(0) // 2
        torch.testing.assert_close(layer.k_proj.weight[:half], layer.q_proj.weight[:half])


@pytest.mark.parametrize(
    ("sharing", "keys"),
    [
        ("layerwise", {"proj_k.weight"}),
        ("key_value", {f"layers.{i}.self_attn.proj_k.weight" for i in range(3)}),
        ("headwise", {f"layers.{i}.self_attn.proj_{x}.weight" for i in range(3) for x in "kv"}),
        ("none", {f"layers.{i}.self_attn.proj_{x}.weight" for i in range(3) for x in "kv"}),
    ],
)
def test_each_projection_appears_once_and_stays_shared_after_loading(data: Path, sharing: str, keys: set[str]) -> None:
    model, other = build(data, sharing=sharing), build(data, sharing=sharing)
    prefix = "encoder.sentence_encoder."
    found = {key.removeprefix(prefix) for key in model.state_dict() if "proj_k." in key or "proj_v." in key}
    assert found == keys
    for weight in model.parameters():  # `build` draws the same for both
        torch.nn.init.normal_(weight)
    other.load_state_dict(model.state_dict())
    for key in keys:
        torch.testing.assert_close(other.state_dict()[prefix + key], model.state_dict()[prefix + key])
    if sharing == "layerwise":
        encoder = other.encoder.sentence_encoder
        assert all(layer.self_attn._shared is encoder.proj_k for layer in encoder.layers)
        assert sum(p is encoder.proj_k.weight for p in other.parameters()) == 1
