"""The learning rate of a run is tried before the run starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose


def _complete(data: Path, scheduler: str, *options: str) -> None:
    out = ["~lr_scheduler.total_num_update"]
    out += ["~lr_scheduler.warmup_updates"] if scheduler in ("triangular", "tri_stage", "pass_through") else []
    words = [f"lr_scheduler.{option}" for option in options]
    complete(
        compose("pretraining", [f"task.data={data}", "run_config=cpu", f"lr_scheduler._name={scheduler}", *out, *words])
    )


@pytest.mark.parametrize(
    ("scheduler", "options", "message"),
    [
        ("fixed", ["lr_shrink=-1", "force_anneal=1"], r"fixed .*lr_shrink=-1.0.*learning rate of update 0 would be -"),
        ("inverse_sqrt", ["warmup_updates=0"], "inverse_sqrt .*warmup_updates=0.*division by zero"),
        ("cosine", ["t_mult=-1"], "cosine .*t_mult=-1.0"),
        ("cosine", ["lr_period_updates=10", "lr_shrink=-1"], "cosine .*learning rate of update 10,"),
        ("triangular", ["max_lr=1e-9"], "triangular .*max_lr=1e-09.* more than lr"),
        ("step", ["lr_deacy_period=0"], "step .*lr_deacy_period=0.* refuses"),
        ("tri_stage", [], "tri_stage .*phase_ratio"),
        ("tri_stage", ["warmup_steps=10"], "tri_stage .*warmup_steps=10.*division by zero"),
        ("reduce_lr_on_plateau", ["lr_shrink=2"], r"reduce_lr_on_plateau .*lr_shrink=2.0.*Factor"),
    ],
)
def test_options_that_give_no_learning_rate_are_refused(
    own_data: Path, scheduler: str, options: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=f"^lr_scheduler: {message}"):
        _complete(own_data, scheduler, *options)


@pytest.mark.parametrize("scheduler", ["cosine", "inverse_sqrt", "fixed"])
def test_a_warm_up_as_long_as_the_run_or_longer_is_refused(own_data: Path, scheduler: str) -> None:
    for updates in (250_000, 300_000):
        with pytest.raises(UserError, match=f"^lr_scheduler.warmup_updates={updates}, .*max_update is 250,000:"):
            _complete(own_data, scheduler, f"warmup_updates={updates}")


@pytest.mark.parametrize("max_update", [10, 1000])
def test_a_warm_up_ends_before_a_schedule_of_its_own(own_data: Path, max_update: int) -> None:
    words = [f"optimization.max_update={max_update}", "lr_scheduler.total_num_update=100"]
    words += [f"task.data={own_data}", "run_config=cpu"]
    complete(compose("pretraining", [*words, "lr_scheduler.warmup_updates=99"]))
    with pytest.raises(UserError, match=r"^lr_scheduler.warmup_updates=100, but lr_scheduler.total_num_update is 100:"):
        complete(compose("pretraining", [*words, "lr_scheduler.warmup_updates=100"]))


def test_a_missing_option_is_named(own_data: Path) -> None:
    with pytest.raises(UserError, match="^lr_scheduler.max_lr: missing; triangular"):
        _complete(own_data, "triangular")


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("fixed", []),
        ("inverse_sqrt", ["warmup_init_lr=1e-7"]),
        ("cosine", ["t_mult=2", "lr_period_updates=100"]),
        ("triangular", ["max_lr=1"]),
        ("step", []),
        ("tri_stage", ["phase_ratio=[0.1,0.4,0.5]"]),
        ("reduce_lr_on_plateau", []),
    ],
)
def test_every_scheduler_can_be_used(own_data: Path, scheduler: str, options: list[str]) -> None:
    _complete(own_data, scheduler, *options)


@pytest.mark.slow
def test_the_optimizers_own_learning_rate(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="^lr_scheduler._name=pass_through: .* fused_adamw"):
        _complete(own_data, "pass_through")
    monkeypatch.setattr(OPTIMIZER_REGISTRY["fused_adamw"], "lr_scheduler", None, raising=False)  # as composite has one
    _complete(own_data, "pass_through")
    monkeypatch.undo()
    monkeypatch.setattr(OPTIMIZER_REGISTRY["fused_adamw"], "__module__", "plugin.optimizers")
    _complete(own_data, "pass_through")


def test_the_scheduler_of_a_plugin_is_not_run(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may need an optimizer of its own."""
    monkeypatch.setattr(LR_SCHEDULER_REGISTRY["step"], "__module__", "plugin.schedulers")
    _complete(own_data, "step", "lr_deacy_period=0")
