"""A folder's run is carried on by the same run only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.launch import LaunchError
from linformer_fairseq.launch.run_identity import check_same_run

FACTS: dict[str, Any] = {
    "stage": "pretraining",
    "task": None,
    "data": "/data",
    "pretrained": None,
    "seed": 1,
    "lr": 0.0005,
    "model": {"_name": "linformer_roberta_tiny", "projection": "linear", "dropout": 0.1, "max_positions": 32},
}


def test_the_same_run_and_a_first_one_go_on() -> None:
    check_same_run(Path("runs/a"), {}, FACTS)
    # what may change: an architecture's name for the same sizes, the number of updates, where the paper shows it
    again = {**FACTS, "max_update": 7, "paper": {}, "model": {**FACTS["model"], "_name": "linformer_roberta"}}
    check_same_run(Path("runs/a"), {**FACTS, "max_update": 3}, again)


@pytest.mark.parametrize("option", ["compile_encoder", "checkpoint_activations", "pad_vocabulary"])
def test_how_a_model_is_computed_may_change(option: str) -> None:
    check_same_run(Path("runs/a"), FACTS, {**FACTS, "model": {**FACTS["model"], option: True}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.1}, "^runs/a holds a run with lr 0.0005, but this one has 0.1; say another run.name"),
        ({"seed": 2}, "holds a run with seed 1, but this one has 2"),
        ({"task": "sst2"}, "holds a run with task None, but this one has 'sst2'"),
        ({"data": "/other"}, "holds a run with data '/data', but this one has '/other'"),
        ({"model": {**FACTS["model"], "projection": "mean_pool"}}, "model.projection 'linear', but .* 'mean_pool'"),
        ({"model": {**FACTS["model"], "dropout": 0.3}}, "model.dropout 0.1, but this one has 0.3"),
        ({"model": {**FACTS["model"], "sharing": "none"}}, "model.sharing None, but this one has 'none'"),
    ],
)
def test_another_run_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        check_same_run(Path("runs/a"), FACTS, {**FACTS, **change})
