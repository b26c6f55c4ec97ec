"""The loss scale of a run in fp16, over its restarts."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairseq.trainer import Trainer

from linformer_fairseq.patches.loss_scale import KEY

FP16 = {"common.fp16": True, "common.fp16_no_flatten_grads": True}
MODES = [FP16, {**FP16, "common.memory_efficient_fp16": True}]


@pytest.mark.parametrize("settings", MODES, ids=["fp16", "memory_efficient"])
def test_a_resumed_run_raises_it_when_an_uninterrupted_one_does(
    make_trainer: Callable[..., Trainer], tmp_path: Path, settings: Any
) -> None:
    settings = settings | {"common.fp16_scale_window": 4}

    def scales(scaler: Any, updates: int) -> list[float]:
        found = []
        for _ in range(updates):
            scaler.update()
            found.append(scaler.loss_scale)
        return found

    def fresh() -> Any:
        return make_trainer(tmp_path, settings).optimizer

    once = scales(fresh().scaler, 9)
    assert len(set(once)) > 2
    optimizer, twice = fresh(), []
    for _ in range(3):
        twice += scales(optimizer.scaler, 3)
        resumed = fresh()
        resumed.load_state_dict(optimizer.state_dict())
        optimizer = resumed
    assert twice == once


@pytest.mark.parametrize("overflows", [(4, 6, 12), (4, 7, 12)])
def test_a_resumed_run_counts_overflows_on(
    make_trainer: Callable[..., Trainer], tmp_path: Path, overflows: tuple[int, ...]
) -> None:
    """After two overflows among few updates, the scale is lowered by more than after one."""
    settings = {**FP16, "common.fp16_scale_window": 8, "common.fp16_scale_tolerance": 0.25}

    def go(scaler: Any, updates: range) -> list[float]:
        found = []
        for update in updates:
            if update in overflows:
                with contextlib.suppress(OverflowError):
                    scaler.check_overflow(float("inf"))
            scaler.update()
            found.append(scaler.loss_scale)
        return found

    def fresh() -> Any:
        return make_trainer(tmp_path, settings).optimizer

    once = go(fresh().scaler, range(24))
    for stop in (5, 9):
        optimizer, resumed = fresh(), fresh()
        first = go(optimizer.scaler, range(stop))
        resumed.load_state_dict(optimizer.state_dict())
        assert first + go(resumed.scaler, range(stop, 24)) == once, stop
    assert len(set(once)) > 1


def test_a_checkpoint_without_its_counters_can_be_loaded(make_trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    optimizer = make_trainer(tmp_path, FP16).optimizer
    state = {name: value for name, value in optimizer.state_dict().items() if name != KEY} | {"loss_scale": 8.0}
    optimizer.load_state_dict(state)
    assert optimizer.scaler.loss_scale == 8.0
    assert KEY not in make_trainer(tmp_path, {"common.bf16": True}).optimizer.state_dict()
