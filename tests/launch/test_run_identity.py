"""A folder's run is carried on by the same run only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.run_identity import check_same_run, data_bytes
from linformer_fairseq.models.config import DEFAULTS, Role, with_role

FACTS: dict[str, Any] = {
    "stage": "pretraining",
    "task": None,
    "data": "/data",
    "data_bytes": [{"train.bin": 10, "train.idx": 20}],
    "dictionaries": {"tokens": "ab12"},
    "pretrained": None,
    "finetune_from_model": None,
    "seed": 1,
    "lr": 0.0005,
    "max_update": 7,
    "model": {"_name": "linformer_roberta_tiny", "projection": "linear", "dropout": 0.1, "max_positions": 32},
}


def test_the_same_run_and_a_first_one_go_on() -> None:
    check_same_run(Path("runs/a"), {}, FACTS)
    # what may change: an architecture's name for the same sizes, the number of updates, where the paper shows it
    again = {**FACTS, "paper": {}, "model": {**FACTS["model"], "_name": "linformer_roberta"}}
    check_same_run(Path("runs/a"), {**FACTS, "max_update": 3}, again)


def test_data_in_another_place_are_the_same_if_their_files_are() -> None:
    moved = {**FACTS, "data": "/scratch/job1"}
    check_same_run(Path("runs/a"), FACTS, moved)
    others = {**moved, "data_bytes": [{"train.bin": 12, "train.idx": 20}]}
    older = {name: value for name, value in FACTS.items() if name != "data_bytes"}
    for record, now in ((FACTS, others), (older, moved)):
        with pytest.raises(UserError, match="data '/data', but this one has '/scratch/job1'"):
            check_same_run(Path("runs/a"), record, now)


def test_data_that_were_cut_in_another_way_are_others() -> None:
    head, tail = ({"task": "imdb", "max_positions": 32, "cut": cut} for cut in ("head", "tail"))
    check_same_run(Path("runs/a"), {**FACTS, "inputs": head}, {**FACTS, "inputs": dict(head)})
    check_same_run(Path("runs/a"), FACTS, {**FACTS, "inputs": tail})  # of an earlier version
    with pytest.raises(UserError, match="'cut': 'head'.*'cut': 'tail'"):
        check_same_run(Path("runs/a"), {**FACTS, "inputs": head}, {**FACTS, "inputs": tail})


def test_the_files_of_data_in_several_folders(tmp_path: Path) -> None:
    for name, size in (("0/train.bin", 3), ("0/dict.txt", 5), ("1/input0/train.idx", 4)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert data_bytes(f"{tmp_path}/0:{tmp_path}/1") == [{"train.bin": 3}, {"input0/train.idx": 4}]


_BEFORE = {"row_weights": "free", "short_inputs": "first_columns", "attention_start": "random", "projection_step": 1.0}


@pytest.mark.parametrize(
    ("record", "now"),
    [
        ({}, {"projection_init": "xavier"}),
        ({"projection_init": None}, {"projection_init": "xavier"}),
        ({"freeze_projection": True}, {"projection_init": "jl"}),
    ],
)
def test_a_run_older_than_an_option_goes_on_with_what_it_was(record: dict[str, Any], now: dict[str, Any]) -> None:
    older = {**FACTS, "model": {**FACTS["model"], **record}}
    check_same_run(Path("runs/a"), older, {**FACTS, "model": {**FACTS["model"], **record, **_BEFORE, **now}})
    for name, value in (("row_weights", "affine"), ("short_inputs", "stretch"), ("attention_start", "neighbours")):
        with pytest.raises(UserError, match=f"model.{name} '{_BEFORE[name]}', but this one has '{value}'"):
            check_same_run(Path("runs/a"), older, {**FACTS, "model": {**older["model"], **now, name: value}})


def test_what_an_option_affects() -> None:
    """Whoever adds an option decides: of another model, a checkpoint is of no use, and it may not pass for this run."""
    assert with_role(Role.EXECUTION) == {
        *("checkpoint_activations", "offload_activations", "min_params_to_wrap", "compile_encoder", "pad_vocabulary")
    }
    assert with_role(Role.TRAINING) == {
        *("dropout", "attention_dropout", "activation_dropout", "pooler_dropout", "pooler_activation_fn"),
        *("load_checkpoint_heads", "spectral_norm_classification_head", "encoder_layerdrop"),
        *("quant_noise_pq_block_size", "quant_noise_scalar", "projection_init", "attention_start"),
    }
    assert with_role(Role.MODEL) == {
        *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "activation_fn"),
        *("encoder_normalize_before", "layernorm_embedding", "max_positions", "untie_weights_roberta"),
        *("encoder_layers_to_keep", "quant_noise_pq", "projected_dim", "sharing", "projection", "projection_step"),
        *("row_weights", "short_inputs", "kernel_strides", "freeze_projection"),
    }


@pytest.mark.parametrize("option", sorted(with_role(Role.MODEL, Role.TRAINING) - {"projection_init", *_BEFORE}))
def test_a_run_that_is_older_than_an_option_has_its_default(option: str) -> None:
    model = {**DEFAULTS, **FACTS["model"], **_BEFORE}
    older = {**FACTS, "model": {name: value for name, value in model.items() if name != option}}
    check_same_run(Path("runs/a"), older, {**FACTS, "model": {**model, option: DEFAULTS[option]}})
    with pytest.raises(UserError, match=f"model.{option} {DEFAULTS[option]!r}, but this one has 'another'"):
        check_same_run(Path("runs/a"), older, {**FACTS, "model": {**model, option: "another"}})


@pytest.mark.parametrize("option", ["compile_encoder", "checkpoint_activations", "pad_vocabulary"])
def test_how_a_model_is_computed_may_change(option: str) -> None:
    check_same_run(Path("runs/a"), FACTS, {**FACTS, "model": {**FACTS["model"], option: True}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.1}, "^runs/a holds a run with lr 0.0005, but this one has 0.1; choose another run.name"),
        (
            {"finetune_from_model": "/runs/other/checkpoint_last.pt"},
            "finetune_from_model None, but this one has '/runs/other/checkpoint_last.pt'",
        ),
        ({"stage": "finetuning"}, "holds a run with stage 'pretraining', but this one has 'finetuning'"),
        ({"pretrained": "/other.pt"}, "holds a run with pretrained None, but this one has '/other.pt'"),
        ({"seed": 2}, "holds a run with seed 1, but this one has 2"),
        ({"task": "sst2"}, "holds a run with task None, but this one has 'sst2'"),
        ({"label_weight": 0.5}, "holds a run with label_weight None, but this one has 0.5"),
        ({"soft_labels": "ab12"}, "holds a run with soft_labels None, but this one has 'ab12'"),
        ({"data_bytes": [{"train.bin": 10, "train.idx": 24}]}, "with 20 bytes in train.idx, which has 24 by now"),
        ({"data_bytes": [{"train.bin": 8, "train.idx": 20}]}, "with 10 bytes in train.bin, which has 8 by now"),
        ({"data": "/other", "data_bytes": []}, "holds a run with data '/data', but this one has '/other'"),
        ({"dictionaries": {"tokens": "cd34"}}, "runs/a .*other dictionaries than .* /data"),
        ({"model": {**FACTS["model"], "projection": "mean_pool"}}, "model.projection 'linear', but .* 'mean_pool'"),
        ({"model": {**FACTS["model"], "dropout": 0.3}}, "model.dropout 0.1, but this one has 0.3"),
        ({"model": {**FACTS["model"], "sharing": "none"}}, "model.sharing 'layerwise', but this one has 'none'"),
        ({"model": {**FACTS["model"], "of_a_plugin": 4}}, "model.of_a_plugin None, but this one has 4"),
    ],
)
def test_another_run_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_same_run(Path("runs/a"), FACTS, {**FACTS, **change})


@pytest.mark.parametrize(("option", "moved"), [("projection", False), ("sharing", False), ("dropout", True)])
def test_nobody_is_told_to_continue_with_another_model(option: str, moved: bool) -> None:
    """Its checkpoints cannot be loaded; those of another dropout can."""
    with pytest.raises(UserError) as error:
        check_same_run(Path("runs/a"), FACTS, {**FACTS, "model": {**FACTS["model"], option: "another"}})
    assert ("move its run.json away" in str(error.value)) == moved


@pytest.mark.parametrize(("done", "wanted", "moved"), [(3, 7, True), (7, 7, False), (7, 9, True), (7, 0, True)])
@pytest.mark.parametrize("change", [{"lr": 0.1}, {"data_bytes": [{"train.bin": 8, "train.idx": 20}]}])
def test_nobody_is_told_to_continue_a_run_that_has_made_its_updates(
    change: dict[str, Any], done: int, wanted: int, moved: bool
) -> None:
    """It would be recorded as one with the new value, and no update would be made with it."""
    record = {**FACTS, "attempts": [{"updates_at_end": done}]}
    with pytest.raises(UserError) as error:
        check_same_run(Path("runs/a"), record, {**FACTS, "max_update": wanted, **change})
    assert ("move its run.json away" in str(error.value)) == moved


@pytest.mark.parametrize(
    ("fact", "value"), [("finetune_from_model", "/runs/other/checkpoint_last.pt"), ("dictionaries", {"tokens": "cd34"})]
)
def test_a_run_that_is_older_than_a_fact_goes_on(fact: str, value: Any) -> None:
    older = {name: value for name, value in FACTS.items() if name != fact}
    check_same_run(Path("runs/a"), older, {**FACTS, fact: value})


def test_another_split_may_be_added() -> None:
    check_same_run(Path("runs/a"), FACTS, {**FACTS, "data_bytes": [{**FACTS["data_bytes"][0], "test.bin": 5}]})
