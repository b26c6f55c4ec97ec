"""Saved, loaded, and refused where a checkpoint's n, k or sharing is not the model's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.launch.pretrained import read_pretrained
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.stored import read_roberta
from tests.adapter.building import directly, from_command_line, from_hydra
from tests.checkpoint_files import save

OPTIONS: dict[str, Any] = {
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_attention_heads": 2,
    "max_positions": 32,
    "projected_dim": 8,
    "sharing": "headwise",
    "projection": "linear",
}


def load(stored: dict[str, Any], built: dict[str, Any]) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Both models, the second with the weights of the first."""
    one, other = (directly(16, **{**OPTIONS, **changes}).eval() for changes in (stored, built))
    other.load_state_dict(one.state_dict())
    return one, other


@pytest.mark.parametrize(
    ("stored", "built", "checkpoint_has", "model_has"),
    [
        ({"projected_dim": 4}, {}, r"projected_dim \(k\) = 4", r"projected_dim \(k\) = 8"),
        ({"max_positions": 16}, {}, r"max_positions \(n\) = 16", r"max_positions \(n\) = 32"),
        ({"sharing": "layerwise"}, {}, "sharing=layerwise", "sharing=headwise"),
        ({"sharing": "key_value"}, {}, "sharing=key_value", "sharing=headwise"),
        ({"projection": "mean_pool"}, {}, "projection=mean_pool", "projection=linear"),
        # None of these can be told from shapes:
        ({"projection": "mean_pool", "projected_dim": 4}, {"projection": "mean_pool"}, "= 4", "= 8"),
        ({"encoder_attention_heads": 4}, {}, "in each of 4 heads", "in each of 2 heads"),
        ({"projection": "mean_pool"}, {"projection": "max_pool"}, "mean_pool", "max_pool"),
        (
            {"projection": "convolution", "sharing": "none"},
            {"projection": "convolution"},
            "sharing=none",
            "sharing=headwise",
        ),
        (
            {"projected_dim": [8, 4], "sharing": "layerwise"},
            {"sharing": "layerwise"},
            r"projected_dim \(k\) = 4",
            r"projected_dim \(k\) = 8",
        ),
    ],
)
def test_another_n_k_or_sharing_is_refused_naming_both(
    stored: dict, built: dict, checkpoint_has: str, model_has: str
) -> None:
    load(stored, stored)
    with pytest.raises(ValueError, match=f"was trained with .*{checkpoint_has}.* but the model has .*{model_has}"):
        load(stored, built)


def test_pooling_is_the_same_function_in_every_sharing_mode() -> None:
    one, other = load(
        {"projection": "mean_pool", "sharing": "none"}, {"projection": "mean_pool", "sharing": "layerwise"}
    )
    tokens = torch.randint(4, 16, (2, 30), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(other(tokens)[0], one(tokens)[0])


@pytest.mark.parametrize("entry", ["command line", "hydra"])
def test_a_checkpoint_carries_all_the_model_is_built_from(data: Path, entry: str) -> None:
    options = {**OPTIONS, "projected_dim": [[8, 3], [5, 2]], "sharing": "none", "projection_init": "jl"}
    if entry == "hydra":
        cfg, _, model = from_hydra(data, {"_name": "linformer_roberta", **options}, {"tokens_per_sample": 32})
    else:
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        cfg, _, model = from_command_line(data, "--arch", "linformer_roberta", *flags, "--tokens-per-sample", "32")
    path = save(data.parent / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    (loaded,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert loaded.encoder.settings == model.encoder.settings
    tokens = torch.randint(4, 40, (2, 17))
    torch.testing.assert_close(loaded.eval()(tokens)[0], model.eval()(tokens)[0])


def test_a_named_architecture_is_rebuilt_with_its_sizes(data: Path) -> None:
    cfg, _, model = from_hydra(data, {"_name": "linformer_roberta_tiny"}, {"tokens_per_sample": 256})
    path = save(data.parent / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    (loaded,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert loaded.args.encoder_embed_dim == 64


@pytest.mark.parametrize("projection", ["linear", "convolution", "mean_pool"])
@pytest.mark.parametrize("left", ["out", "None"])
def test_options_younger_than_a_checkpoint_are_what_it_was_trained_with(data: Path, projection: str, left: str) -> None:
    """None would mean the default of today; an older file does not even name them."""
    before = {"row_weights": "free", "short_inputs": "first_columns", "projection_step": 1.0}
    options = {"_name": "linformer_roberta", **OPTIONS, "projection": projection, **before}
    cfg, _, model = from_hydra(data, options, {"tokens_per_sample": 32})
    plain = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    for name in before:
        plain["model"].pop(name)
        if left == "None":
            plain["model"][name] = None
    path = save(data.parent / "model.pt", 0, model.state_dict(), plain, checksum=False)
    (loaded,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert loaded.encoder.settings == dataclasses.replace(
        model.encoder.settings, projection_init=loaded.encoder.settings.projection_init
    )
    assert {name: read_pretrained(path).options[name] for name in before} == before
    tokens = torch.randint(4, 40, (2, 17))
    torch.testing.assert_close(loaded.eval()(tokens)[0], model.eval()(tokens)[0])


def test_a_finetuning_has_all_weights_of_a_pretraining_with_quantization_noise(data: Path) -> None:
    options = {"_name": "linformer_roberta", **OPTIONS, "quant_noise_pq": 0.1}
    cfg, _, model = from_hydra(data, options, {"tokens_per_sample": 32})
    path = save(data.parent / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    found = read_pretrained(path).model_options({"dropout": 0.3})
    assert (found["quant_noise_pq"], found["dropout"]) == (0.1, 0.3)
    from_hydra(data, found, {"tokens_per_sample": 32})[2].load_state_dict(model.state_dict())


@pytest.mark.parametrize("entry", ["command line", "hydra"])
@pytest.mark.parametrize("pruned", ["when it was loaded", "from the start"])
def test_a_pruned_model_is_saved_with_the_layers_that_are_left(data: Path, entry: str, pruned: str) -> None:
    options = {**OPTIONS, "encoder_layers": 3}
    full = directly(32, **options)
    if entry == "hydra":
        model = {"_name": "linformer_roberta", **options, "encoder_layers_to_keep": "0,2"}
        cfg, _, pruned_model = from_hydra(data, model, {"tokens_per_sample": 32})
    else:
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        flags += ["--arch", "linformer_roberta", "--encoder-layers-to-keep", "0,2", "--tokens-per-sample", "32"]
        cfg, _, pruned_model = from_command_line(data, *flags)
    if pruned == "when it was loaded":
        pruned_model.load_state_dict(full.state_dict(), model_cfg=cfg.model)
        assert (cfg.model.encoder_layers, cfg.model.encoder_layers_to_keep) == (2, None)
    path = save(data.parent / "model.pt", 0, pruned_model.state_dict(), cfg, checksum=False)
    loaded = LinformerRobertaModel.from_pretrained(path.parent, path.name, data, bpe=None).model.eval()
    assert len(loaded.encoder.sentence_encoder.layers) == 2
    tokens = torch.randint(4, 40, (2, 17))
    torch.testing.assert_close(loaded(tokens)[0], pruned_model.eval()(tokens)[0])


def by_the_loader(path: Path, data: Path) -> None:
    checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})


def by_the_hub(path: Path, data: Path) -> None:
    LinformerRobertaModel.from_pretrained(path.parent, path.name, data, bpe=None)


def by_a_finetuning(path: Path, data: Path) -> None:
    read_pretrained(path)


@pytest.mark.parametrize("use", [by_the_loader, by_the_hub, by_a_finetuning])
@pytest.mark.parametrize("checksum", [True, False])
def test_one_wrong_bit_is_refused_wherever_it_is_loaded(
    data: Path, tmp_path: Path, use: Callable[[Path, Path], None], checksum: bool
) -> None:
    options = {"_name": "linformer_roberta", **OPTIONS}
    cfg, _, model = from_hydra(data, options, {"tokens_per_sample": 32})
    path = save(tmp_path / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    if checksum:
        write_checkpoint(torch.load(path, weights_only=True), str(path))
    use(path, data)

    weight = model.state_dict()["encoder.sentence_encoder.embed_tokens.weight"]
    content = bytearray(path.read_bytes())
    content[content.index(weight.numpy().tobytes())] ^= 1
    path.write_bytes(content)
    reason = "do not match the SHA-256" if checksum else "the CRC of 'model/data/.*' in its zip archive is wrong"
    with pytest.raises(ValueError, match=f"^{path}: cannot be read as a checkpoint: .*{reason}"):
        use(path, data)


@pytest.mark.parametrize("use", [by_the_hub, by_a_finetuning, lambda path, _: read_roberta(path)])
def test_a_run_that_diverged_is_refused_where_its_model_would_be_used(
    data: Path, tmp_path: Path, use: Callable[[Path, Path], None]
) -> None:
    cfg, _, model = from_hydra(data, {"_name": "linformer_roberta", **OPTIONS}, {"tokens_per_sample": 32})
    weights = model.state_dict()
    weights["encoder.lm_head.bias"] = torch.full_like(weights["encoder.lm_head.bias"], torch.nan)
    path = save(tmp_path / "model.pt", 0, weights, cfg)
    with pytest.raises(ValueError, match=f"^{path}: its weight encoder.lm_head.bias has values that are not finite"):
        use(path, data)
    checkpoint_utils.load_checkpoint_to_cpu(str(path))  # as a run is resumed, which fairseq may have a remedy for


def test_weights_that_do_not_fit_name_the_file(data: Path, tmp_path: Path) -> None:
    cfg, _, model = from_hydra(data, {"_name": "linformer_roberta", **OPTIONS}, {"tokens_per_sample": 32})
    path, weights = tmp_path / "model.pt", model.state_dict()
    less = {key: weight for key, weight in weights.items() if key != "encoder.lm_head.bias"}
    other = {key: weight + 1 if key.endswith("signature") else weight for key, weight in weights.items()}
    for stored, reason in (
        (less, "Missing key.*encoder.lm_head.bias"),
        (other, "the checkpoint does not fit the model"),
    ):
        save(path, 0, stored, cfg, checksum=False)
        for use in (by_the_loader, by_the_hub):
            with pytest.raises(ValueError, match=f"^{path}: .*{reason}"):
                use(path, data)
