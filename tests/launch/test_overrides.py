"""Overrides are taken as they are typed, or refused with what to type instead."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose, jobs, resolved
from linformer_fairseq.launch.application import check
from linformer_fairseq.launch.compose import overrides_for_hydra
from linformer_fairseq.launch.explaining import in_quotes, with_path
from tests.messages import says


@pytest.mark.parametrize(
    "name", ["2024_11_26", "1e3", "1.50", "true", "0x10", "007", "für", "a=b", "a#b", "a[b", "(b)"]
)
def test_a_name_is_used_as_it_is_typed(name: str) -> None:
    assert resolved(compose("pretraining", ["task.data=x", f"run.name={name}"])).run.name == name
    config = compose("pretraining", [f"task.data=/{name}", f"pretrained={name}", f"++run.name={name}"])
    assert (config.pretrained, resolved(config).run.name) == (name, name)


def test_a_path_is_used_as_it_is_typed(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_data.parent)
    own_data.rename("1e5")
    assert complete(compose("pretraining", ["task.data=1e5", "run_config=cpu"])).task.data == str(
        Path("1e5").absolute()
    )
    with pytest.raises(UserError, match="^task.data=null: expected a folder"):
        complete(compose("pretraining", ["task.data=null", "run_config=cpu"]))


@pytest.mark.slow
def test_the_names_of_a_sweep_are_used_as_they_are_typed(own_data: Path) -> None:
    words = [f"task.data={own_data}", "run_config=cpu", "run.name=2024_1,1e3"]
    assert [run.config.run.name for run in check("pretraining", words, sweep=True)] == ["2024_1", "1e3"]
    words = ["task.data=x", "run.name=2024_1", "run.task=null,a"]
    configs = [resolved(compose("pretraining", job)).run for job in jobs("pretraining", words)]
    assert [(run.name, run.task) for run in configs] == [("2024_1", None), ("2024_1", "a")]


def test_names_for_slurm_are_used_as_they_are_typed() -> None:
    words = ["task.data=x", "run_config=slurm", "run.slurm.partition=2024_1", "run.slurm.nodes=1"]
    assert resolved(compose("pretraining", [*words, "run.slurm.gpus_per_node=1"])).run.slurm.partition == "2024_1"


def test_a_sweep_over_all_configs_of_a_group() -> None:
    found = jobs("pretraining", ["task.data=x", "experiment=glob(roberta_*)"])
    assert [job[1] for job in found] == ["experiment=roberta_base_n1024", "experiment=roberta_base_n512"]
    with pytest.raises(UserError, match="small/.*: no runs"):
        jobs("pretraining", ["task.data=x", "experiment=glob(small/*)"])


def test_syntax_of_hydra_in_a_name_stays() -> None:
    words = ["task.data=x", "common.seed=7", "run.name='x_${common.seed}'", "run.task=null"]
    config = resolved(compose("pretraining", words))
    assert (config.run.name, config.run.task) == ("x_7", None)
    assert overrides_for_hydra("pretraining", ["run.name=12", "common.seed=1,2"]) == [
        "++run.name=12",
        "++common.seed=1,2",
    ]


@pytest.mark.parametrize("value", ["a'b", '"a', 'a\\"b', "a\\\\", "a,b", "$x y", "[a", "{a: 1}", "für", "a=b"])
def test_the_advised_quotes_keep_the_value(value: str) -> None:
    (word,) = shlex.split(in_quotes("run.model", value))
    assert compose("pretraining", [word]).run.model == value


@pytest.mark.parametrize("name", ["out", "a folder", "x[8,16]", 'say "k"', "it's $k", r"a\"b", "ends in \\"])
def test_an_override_for_a_path_with_any_name(name: str, tmp_path: Path) -> None:
    words = ["experiment=converted/linformer", with_path("pretrained", tmp_path / name), "task.data=bin"]
    assert compose("pretraining", words).pretrained == str(tmp_path / name)


@pytest.mark.parametrize("value", ["a'b", '"a', "a,b"])
def test_a_name_that_hydra_cannot_read_is_refused_with_the_advice(value: str) -> None:
    with pytest.raises(UserError) as refused:
        compose("pretraining", [f"run.name={value}"])
    assert says(str(refused.value), f"run.name={value}", in_quotes("run.name", value))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model=", "model=: expected the name of a config"),
        ("=x", "=x: expected KEY=VALUE"),
        ("x", "x: expected KEY=VALUE"),
        ("run.name", "run.name: expected KEY=VALUE"),
        ("model._name=ü", 'model._name=ü: .*model._name="ü"'),
        ("optimizer.adam_betas=(0.9,0.98)", r"optimizer.adam_betas=\(0.9,0.98\): .*\"\(0.9,0.98\)\""),
        ("optimization.lr=[1", r"optimization.lr=\[1: "),
        ("optimization.lr=0.1,0.2", r"optimization.lr=0.1,0.2: .*'optimization.lr=\[0.1,0.2\]'.* --multirun"),
        ("experiment=a,b", "experiment=a,b: .* --multirun"),
        ("run.name=a,b", "^(?!.*a list).* --multirun"),
        ("lr_scheduler._name=cosine", "lr_scheduler.total_num_update: .* cosine.*~lr_scheduler.total_num_update"),
        ("optimizer._name=sgd", "optimizer._name=sgd: .*adam, .*fused_adamw, nag"),
        ("lr_scheduler.warmup_updates=abc", "lr_scheduler.warmup_updates: Value 'abc'"),
        ("lr_scheduler.warmup_updates=null", "lr_scheduler.warmup_updates: .*'None'"),
        ("run.name=${x}", "Interpolation key 'x' not found"),
    ],
)
def test_an_error_names_the_override_and_says_what_to_do(own_data: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        complete(compose("pretraining", [f"task.data={own_data}", "run_config=cpu", word]))
    assert "\n" not in str(refused.value)
