"""An average of the parameters beside integers that identify the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models.ema import build_ema

from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import same


@pytest.mark.parametrize("fp32", [False, True])
def test_parameters_are_averaged_and_integers_are_not(
    make_trainer: Callable[..., Any], tmp_path: Path, fp32: bool
) -> None:
    settings = {"ema.store_ema": True, "ema.ema_decay": 0.75, "ema.ema_fp32": fp32}
    trainer = make_trainer(tmp_path, settings)
    average = build_ema(trainer.model, trainer.cfg.ema, torch.device("cpu"))
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    assert any(name.endswith("signature") for name in before)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(1)
    average.step(trainer.model)
    for name, value in average.get_model().state_dict().items():
        if "version" in name or name.endswith(("embed_tokens.weight", "lm_head.weight")):
            continue  # fairseq leaves versions as they are, and averages tied weights twice
        moved = 0.25 if torch.is_floating_point(value) else 0
        torch.testing.assert_close(value, before[name] + moved, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_a_resumed_run_has_the_same_average(
    train: Callable[..., str], tiny_settings: Any, tmp_path: Path, every: int
) -> None:
    settings = {
        "ema.ema_update_freq": every,
        **tiny_settings,
        "dataset.disable_validation": True,
        "ema.store_ema": True,
        "ema.ema_decay": 0.5,
        "ema.ema_fp32": True,
    }
    for stops in ([4], [2, 4]):
        for updates in stops:
            train("fairseq-train", {**settings, "optimization.max_update": updates}, tmp_path / str(len(stops)))
    once, twice = (read_checkpoint(tmp_path / name / "checkpoint_last.pt") for name in "12")
    torch.testing.assert_close(once["extra_state"]["ema"], twice["extra_state"]["ema"], rtol=0, atol=0)
    weights = ("encoder.sentence_encoder.layers.0.fc1.weight", "encoder.sentence_encoder.layers.0.fc1.bias")
    assert any(not torch.equal(once["model"][name], once["extra_state"]["ema"][name]) for name in weights)


def test_an_average_without_decay_is_the_model(make_trainer: Callable[..., Any], tmp_path: Path) -> None:
    settings = {"ema.store_ema": True, "ema.ema_decay": 0.0, "model.encoder_normalize_before": True}
    trainer = make_trainer(tmp_path, settings)
    assert trainer.model.encoder.sentence_encoder.layer_norm is not None
    trainer.ema.step(trainer.model)
    assert same(trainer.ema.get_model().state_dict(), trainer.model.state_dict())


def test_an_average_that_lost_its_last_layer_norm_gets_the_models(
    make_trainer: Callable[..., Any], tmp_path: Path
) -> None:
    """As checkpoints of an earlier version have it."""
    settings = {"ema.store_ema": True, "ema.ema_decay": 0.5, "model.encoder_normalize_before": True}
    trainer = make_trainer(tmp_path, settings)
    norm = trainer.model.encoder.sentence_encoder.layer_norm
    with torch.no_grad():
        norm.weight.add_(1)
    path, prefix = tmp_path / "checkpoint_last.pt", "encoder.sentence_encoder."
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
    state = torch.load(path, weights_only=False)
    average = state["extra_state"]["ema"]
    for name in ("layer_norm.weight", "layer_norm.bias"):
        del average[prefix + name]
    average[prefix + "version"] = torch.Tensor([1])
    torch.save({name: value for name, value in state.items() if name != "checksum"}, path)
    resumed = make_trainer(tmp_path, settings)
    resumed.load_checkpoint(str(path), reset_optimizer=True)
    ours = resumed.ema.get_model().encoder.sentence_encoder.layer_norm
    assert torch.equal(ours.weight, norm.weight)


@pytest.mark.parametrize("kept", [None, "1"])
@pytest.mark.parametrize("fp32", [False, True])
def test_it_begins_with_the_weights_of_a_checkpoint_without_an_average(
    make_trainer: Callable[..., Any], tmp_path: Path, fp32: bool, kept: str | None
) -> None:
    plain = make_trainer(tmp_path, {})
    with torch.no_grad():
        for parameter in plain.model.parameters():
            parameter.add_(1)
    plain.consolidate_optimizer()
    path = tmp_path / "checkpoint_last.pt"
    plain.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
    settings = {"ema.store_ema": True, "ema.ema_decay": 0.75, "ema.ema_fp32": fp32}
    trainer = make_trainer(tmp_path, {**settings, **({"model.encoder_layers_to_keep": kept} if kept else {})})
    trainer.load_checkpoint(str(path), reset_optimizer=True)
    average, loaded = trainer.ema.get_model().state_dict(), trainer.model.state_dict()
    assert same(average, loaded)
    kept_layer = plain.model.encoder.sentence_encoder.layers[int(kept or 0)]
    assert torch.equal(average["encoder.sentence_encoder.layers.0.fc1.weight"], kept_layer.fc1.weight)
