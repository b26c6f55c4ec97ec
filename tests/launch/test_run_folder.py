"""When a run has nothing left to do, and what its folder must have then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.run_folder import RunFolder, has_finished, require_checkpoints
from linformer_fairseq.training.run_report import Progress
from tests.checkpoint_files import damage, save

STOPS = {"max_epoch": 0, "stop_time_hours": 0, "stop_min_lr": -1.0, "patience": -1}


def record(updates: int, max_update: int, status: str = "finished", **more: Any) -> dict[str, Any]:
    """A run.json with a failed attempt and another one."""
    ends = [("failed", 1), (status, updates)]
    attempts = [{"status": status, "updates_at_end": end} for status, end in ends]
    return {"max_update": max_update, "stops": STOPS, "attempts": attempts, **more}


def wanted(max_update: int, **stops: Any) -> dict[str, Any]:
    return {"max_update": max_update, "stops": {**STOPS, **stops}}


@pytest.mark.parametrize(
    ("earlier", "now", "expected"),
    [
        ({}, wanted(5), False),
        (record(5, 5), wanted(5), True),
        (record(5, 5, "stopped"), wanted(5), False),
        (record(5, 5, "failed"), wanted(5), False),
        (record(5, 5), wanted(3), True),
        (record(5, 5), wanted(6), False),
        # ended early, by max_epoch=1
        (record(5, 9, stops=STOPS | {"max_epoch": 1}), wanted(9, max_epoch=1), True),
        (record(5, 9, stops=STOPS | {"max_epoch": 1}), wanted(9, max_epoch=2), False),
        (record(5, 9, stops=STOPS | {"max_epoch": 1}), wanted(9), False),
        (record(5, 9, stops=STOPS | {"max_epoch": 1}), wanted(5, max_epoch=2), True),
        # without a number of updates
        (record(5, 0, stops=STOPS | {"max_epoch": 1}), wanted(0, max_epoch=1), True),
        (record(5, 0, stops=STOPS | {"max_epoch": 1}), wanted(0, max_epoch=2), False),
        (record(5, 5, stops=STOPS | {"max_epoch": 9}), wanted(0, max_epoch=9), False),
        (record(5, 0, stops=STOPS | {"max_epoch": 1}), wanted(9, max_epoch=1), True),
        # by time, by the learning rate, or because it did not get better
        (record(5, 9, stops=STOPS | {"stop_time_hours": 1}), wanted(9, stop_time_hours=2), False),
        (record(5, 9, stops=STOPS | {"stop_min_lr": 1e-5}), wanted(9, stop_min_lr=1e-6), False),
        (record(5, 9, stops=STOPS | {"patience": 3}), wanted(9, patience=4), False),
        (record(5, 9, stops=STOPS | {"patience": 3}), wanted(9, patience=3), True),
    ],
)
def test_a_run_that_ended_early_goes_on_if_its_reason_has_gone(
    earlier: dict[str, Any], now: dict[str, Any], expected: bool
) -> None:
    assert has_finished(earlier, now) is expected


def test_a_record_from_before_these_options_were_recorded() -> None:
    earlier = record(5, 9)
    del earlier["stops"]
    assert has_finished(earlier, wanted(9, max_epoch=1))
    assert not has_finished(earlier, wanted(10, max_epoch=1))


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_finished_run_has_an_undamaged_checkpoint(tmp_path: Path, name: str) -> None:
    options = OmegaConf.create({"no_save": False, "checkpoint_suffix": ""})
    (tmp_path / "checkpoint_of_mine.pt").touch()  # no name of fairseq's
    with pytest.raises(UserError, match=f"{tmp_path}: .* missing"):
        require_checkpoints(tmp_path, options)
    require_checkpoints(tmp_path, OmegaConf.create({"no_save": True, "checkpoint_suffix": ""}))
    file = save(tmp_path / f"checkpoint_{name}.pt", 3)  # the other one may have been removed
    require_checkpoints(tmp_path, options)
    damage(file)
    with pytest.raises(UserError, match=f"{file}: .* damaged .*verify --set-aside {tmp_path}"):
        require_checkpoints(tmp_path, options)


def test_a_resumed_run_names_the_options_that_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = OmegaConf.create({"optimizer": {"weight_decay": 0.1}, "common": {"seed": 1}})
    folder = RunFolder(tmp_path)
    for decay, named in ((0.2, False), (0.1, False), (0.5, True), (0.5, False)):  # the first two made no checkpoint
        if decay == 0.5:
            (tmp_path / "checkpoint_last.pt").touch()
        config.optimizer.weight_decay = decay
        caplog.clear()
        folder.begin(config, {}, {})
        changed = ["optimizer.weight_decay: 0.1, now 0.5"]
        assert (changed[0] in caplog.text) == named
        assert json.loads((tmp_path / "run.json").read_text())["attempts"][-1]["changed"] == (changed if named else [])
        assert "seed" not in caplog.text


def test_the_number_of_parameters_stays_known_when_a_run_starts_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    found = []
    for parameters in (None, 7, None):
        folder.begin(OmegaConf.create({}), {}, {})
        found.append(json.loads((tmp_path / "run.json").read_text())["parameters"])
        folder.end("failed", Progress(parameters))
        found.append(json.loads((tmp_path / "run.json").read_text())["parameters"])
    assert found == [None, None, None, 7, 7, 7]
