"""Checkpoints of the Linformer example that fairseq ships: same features, under our names.

The example's layout is written here from its description: keys ``compress_k``, ``compress_v`` (k x n), for layerwise
sharing one ``compress_layer`` with an unused bias and aliases of it in each layer; a buffer ``version`` in the encoder
and in each layer; K = W_k (E X) + b. Files that the example itself wrote are in LINFORMER_DATA.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from omegaconf import OmegaConf
from torch import nn

from linformer_fairseq import register
from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.legacy_checkpoint import complete_options
from tests.adapter.building import from_command_line
from tests.binarised import write_task
from tests.checkpoint_files import save

N, RATIO, LAYERS, WIDTH, HEADS = 32, 4, 3, 16, 2
MODES = {
    "headwise": {"shared_kv_compressed": 0, "shared_layer_kv_compressed": 0},
    "key_value": {"shared_kv_compressed": 1, "shared_layer_kv_compressed": 0},
    "layerwise": {"shared_kv_compressed": 1, "shared_layer_kv_compressed": 1},
    # The example makes compress_v an alias of the one matrix too if keys and values are not said to share.
    "layerwise with aliases for values": {"shared_kv_compressed": 0, "shared_layer_kv_compressed": 1},
}


class ExampleAttention(nn.Module):
    def __init__(self, common: nn.Linear | None, shared_kv: int) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.compress_k = common or nn.Linear(N, N // RATIO, bias=False)
        if not shared_kv:
            self.compress_v = common or nn.Linear(N, N // RATIO, bias=False)

    def forward(self, query: torch.Tensor, **_: Any) -> tuple[torch.Tensor, None]:
        length, batch, _ = query.shape
        compress_v = getattr(self, "compress_v", self.compress_k)
        k = self.k_proj(torch.einsum("kt,tbc->kbc", self.compress_k.weight[:, :length], query))
        v = self.v_proj(torch.einsum("kt,tbc->kbc", compress_v.weight[:, :length], query))
        q, k, v = (x.view(len(x), batch, HEADS, WIDTH // HEADS) for x in (self.q_proj(query), k, v))
        p = torch.softmax(torch.einsum("tbhd,kbhd->bhtk", q, k) / (WIDTH // HEADS) ** 0.5, dim=-1)
        return self.out_proj(torch.einsum("bhtk,kbhd->tbhd", p, v).reshape(length, batch, WIDTH)), None


def example_model(args: argparse.Namespace, task: Any) -> RobertaModel:
    """fairseq's RoBERTa with the example's attention, all weights large and random."""
    torch.manual_seed(2)
    model = RobertaModel.build_model(args, task)
    encoder = model.encoder.sentence_encoder
    if args.shared_layer_kv_compressed:
        encoder.compress_layer = nn.Linear(N, N // RATIO)
    for i in range(LAYERS):
        encoder.layers[i] = TransformerEncoderLayerBase(TransformerConfig.from_namespace(args))
        encoder.layers[i].self_attn = ExampleAttention(
            getattr(encoder, "compress_layer", None), args.shared_kv_compressed
        )
    for name, p in model.named_parameters():
        if "layer_norm" not in name:
            p.data.normal_(std=0.3)
    return model.eval()


def example_options(mode: str, **more: Any) -> argparse.Namespace:
    options = {
        "_name": "linformer_roberta_base",
        "arch": "linformer_roberta_base",
        "encoder_layers": LAYERS,
        "encoder_embed_dim": WIDTH,
        "encoder_ffn_embed_dim": 24,
        "encoder_attention_heads": HEADS,
        "tokens_per_sample": N,
        "compressed": RATIO,
        "freeze_compress": 0,
        **MODES[mode],
    }
    return argparse.Namespace(**{**options, **more})


def example_checkpoint(data: Path, mode: str, **more: Any) -> tuple[RobertaModel, Path]:
    sizes = ("--tokens-per-sample", str(N), "--projected-dim", str(N // RATIO))
    cfg, task, _ = from_command_line(data, "--arch", "linformer_roberta_tiny", *sizes)
    options = example_options(mode, **more)
    model = example_model(argparse.Namespace(**vars(options)), task)
    weights = model.state_dict()
    weights["encoder.version"] = torch.tensor(2)
    for layer in range(LAYERS):
        weights[f"encoder.sentence_encoder.layers.{layer}.version"] = torch.tensor(1)
    plain = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    plain["model"] = options
    return model, save(data.parent / "example.pt", 0, weights, plain, checksum=False)


def example_tokens() -> torch.Tensor:
    return torch.randint(4, 40, (3, 21), generator=torch.Generator().manual_seed(1))


def assert_features_of(example: nn.Module, model: nn.Module) -> None:
    tokens = example_tokens()
    expected, found = (which.eval()(tokens, features_only=True)[0] for which in (example, model))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def real_example() -> Path:
    folder = Path(os.environ.get("LINFORMER_DATA", ""), "fairseq_example")
    if not os.environ.get("LINFORMER_DATA") or not folder.is_dir():
        pytest.skip("LINFORMER_DATA names no folder with fairseq_example: checkpoints of fairseq's Linformer example")
    return folder


def assert_as_expected(model: nn.Module, folder: Path, mode: str) -> None:
    expected = torch.load(folder / f"{mode}_expected.pt", weights_only=True)
    with torch.no_grad():
        features = model.eval()(expected["tokens"], features_only=True)[0]
        logits = model(expected["tokens"])[0]
    torch.testing.assert_close(features, expected["features"], atol=1e-5, rtol=0)
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["headwise", "key_value", "layerwise"])
def test_a_real_one_gives_its_features_and_logits(mode: str) -> None:
    folder = real_example()
    path = folder / f"{mode}.pt"
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(folder)})
    assert isinstance(model, LinformerRobertaModel)
    assert_as_expected(model, folder, mode)
    hub = LinformerRobertaModel.from_pretrained(folder, path.name, folder, bpe=None)
    assert_as_expected(hub.model, folder, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["headwise", "key_value", "layerwise"])
def test_a_real_one_is_what_a_finetuning_begins_with(
    run_fairseq: Callable[..., str], tmp_path: Path, mode: str
) -> None:
    """After one update with next to no learning rate, the finetuned model still gives the example's features."""
    folder = real_example()
    examples = [([0, 4 + i, 14 + i, 2], i % 2) for i in range(8)]
    task = write_task(tmp_path / "task", ("0", "1"), {"train": examples, "valid": examples})
    shutil.copy(folder / "dict.txt", task / "input0")
    words = [
        *("finetune", "task=sst2", "run_config=cpu", f"task.data={task}", f"pretrained={folder / mode}.pt"),
        *("optimization.max_update=1", "lr_scheduler.warmup_updates=0", "lr=1e-12", f"run.runs={tmp_path / 'runs'}"),
    ]
    run_fairseq("linformer", *words, cwd=tmp_path)
    (path,) = (tmp_path / "runs").rglob("checkpoint_last.pt")
    register()
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(task)})
    assert_as_expected(model, folder, mode)


@pytest.mark.parametrize("mode", MODES)
def test_it_loads_and_gives_the_same_features(data: Path, mode: str) -> None:
    example, path = example_checkpoint(data, mode)
    keys = example.state_dict()
    assert any("compress_" in key for key in keys), "the test's layout is not the example's"
    tokens = example_tokens()
    expected = example(tokens, features_only=True)[0]

    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert isinstance(model, LinformerRobertaModel)
    torch.testing.assert_close(model.eval()(tokens, features_only=True)[0], expected, atol=1e-5, rtol=1e-5)
    assert (cfg.model.sharing, cfg.model.projected_dim, cfg.model.max_positions) == (mode.split()[0], N // RATIO, N)
    assert not cfg.model.untie_weights_roberta

    hub = LinformerRobertaModel.from_pretrained(str(path.parent), path.name, str(data), bpe=None).eval()
    torch.testing.assert_close(hub.extract_features(tokens), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_projections_stay_frozen(data: Path, frozen: int) -> None:
    _, path = example_checkpoint(data, "headwise", freeze_compress=frozen)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert sum(".proj_" in name for name in model.state_dict()) == 2 * LAYERS
    assert sum(".proj_" in name for name, _ in model.named_parameters()) == (0 if frozen else 2 * LAYERS)


def test_pre_norm_is_known_by_its_weights(data: Path) -> None:
    example, path = example_checkpoint(data, "key_value", encoder_normalize_before=True)
    state = torch.load(path, weights_only=False)
    del state["cfg"]["model"].encoder_normalize_before
    torch.save(state, path)
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert cfg.model.encoder_normalize_before
    assert_features_of(example, model)


@pytest.mark.parametrize(("norm", "name"), [(True, "layernorm_embedding"), (True, "emb_layer_norm"), (False, "none")])
def test_a_norm_of_the_embeddings_is_known_by_its_weights(data: Path, norm: bool, name: str) -> None:
    """Earlier versions of fairseq have another name for it."""
    example, path = example_checkpoint(data, "key_value", layernorm_embedding=norm)
    state = torch.load(path, weights_only=False)
    state["cfg"]["model"].layernorm_embedding = not norm
    state["model"] = {key.replace("layernorm_embedding", name): weight for key, weight in state["model"].items()}
    torch.save(state, path)
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert cfg.model.layernorm_embedding == norm
    assert_features_of(example, model)


def test_one_matrix_of_all_layers_is_found_under_its_aliases(data: Path) -> None:
    example, path = example_checkpoint(data, "layerwise")
    state = torch.load(path, weights_only=False)
    for name in ("weight", "bias"):
        del state["model"][f"encoder.sentence_encoder.compress_layer.{name}"]
    torch.save(state, path)
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert cfg.model.sharing == "layerwise"
    assert_features_of(example, model)


def test_one_from_before_hydra_loads_too(data: Path) -> None:
    """Up to fairseq 0.9 all options lay flat under "args"."""
    example, path = example_checkpoint(data, "headwise")
    state = torch.load(path, weights_only=False)
    options = argparse.Namespace(
        **vars(example_options("headwise")), task="masked_lm", data=str(data), criterion="masked_lm", optimizer="adam"
    )
    del options._name
    torch.save({**state, "cfg": None, "args": options}, path)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    assert_features_of(example, model)


def test_untied_output_weights_stay_untied(data: Path) -> None:
    _, path = example_checkpoint(data, "layerwise")
    state = torch.load(path, weights_only=False)
    key = "encoder.lm_head.weight"
    state["model"][key] = torch.randn_like(state["model"][key])
    torch.save(state, path)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    torch.testing.assert_close(model.encoder.lm_head.weight, state["model"][key])
    assert model.encoder.sentence_encoder.embed_tokens.weight is not model.encoder.lm_head.weight


def test_a_damaged_signature_is_left_to_the_loading() -> None:
    state = {"model": {"encoder.sentence_encoder.layers.0.self_attn.signature": torch.tensor([])}}
    complete_options(state)
    assert state.keys() == {"model"}


def test_an_incomplete_one_is_refused_by_name(data: Path) -> None:
    _, path = example_checkpoint(data, "key_value")
    state = torch.load(path, weights_only=False)
    state["model"] = {k.replace("compress_k.weight", "compress_k.scale"): v for k, v in state["model"].items()}
    torch.save(state, path)
    with pytest.raises(CheckpointError, match="example.pt.*fairseq's Linformer example.*incomplete"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
