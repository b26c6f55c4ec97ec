"""What would stop a job of the chain is found before any is queued."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import compose
from scripts.slurm.check_chain import check, main


@pytest.fixture(autouse=True)
def _grid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINFORMER_LRS", "1e-4")
    monkeypatch.setenv("LINFORMER_SEEDS", "1")
    monkeypatch.setenv("SLURM_NTASKS", "")  # check sets it


def test_a_sound_chain_and_where_its_finetunings_start(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    checkpoint, folders = check("2", "1", keys, [f"sst2={task_data}"], ["dataset.batch_size=8"])
    assert checkpoint == tmp_path / "runs" / "tiny" / "checkpoint_best.pt" and folders == [checkpoint.parent]


@pytest.mark.parametrize("name", ["plain", "o'brien's \\ \"own\""])
def test_the_key_of_the_checkpoint_in_a_folder_with_any_name(
    name: str,
    keys: list[str],
    task_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    task = [f"sst2={task_data}"]
    assert main(["2", "1", *keys, "--", *task, "--", "dataset.batch_size=8"]) == 0
    key, folder = capsys.readouterr().out.splitlines()
    assert folder == str(tmp_path / name / "runs" / "tiny")
    config = compose("finetuning", ["task=sst2", f"task.data={task_data}", key])
    assert config.pretrained == f"{folder}/checkpoint_best.pt"


@pytest.mark.parametrize(
    ("more", "finetuning", "pretrained", "finetuned"),
    [
        (["run.runs=scratch"], [], "scratch/tiny", "runs/tiny"),
        ([], ["run.runs=scratch"], "runs/tiny", "scratch/tiny"),
        (["run.name=long/a"], [], "runs/long/a", "runs/a"),
    ],
)
def test_the_folders_of_finetunings_elsewhere(
    keys: list[str],
    task_data: Path,
    tmp_path: Path,
    more: list[str],
    finetuning: list[str],
    pretrained: str,
    finetuned: str,
) -> None:
    _, folders = check("2", "1", [*keys, *more], [f"sst2={task_data}"], finetuning)
    assert folders == [tmp_path / pretrained, tmp_path / finetuned]


@pytest.mark.parametrize(
    ("more", "task", "finetuning", "said"),
    [
        (["task.data=absent"], "", [], "absent: no such folder"),
        (["experiment=absent"], "", [], "absent"),
        (["run.tokens_per_update=768"], "", [], "run.tokens_per_update is 768"),
        ([], "absent", [], "absent: no such folder"),
        ([], "", ["sst3=x"], "sst3"),
        ([], "", ["model.projected_dim=4"], "model.projected_dim=4, but .*checkpoint_best.pt was pretrained with"),
        ([], "", ["optimization.clip_norm=-1.0"], "optimization.clip_norm=-1.0: expected"),
        ([], "", ["checkpoint.best_checkpoint_metric=acuracy"], "best_checkpoint_metric=acuracy"),
        ([], "", ["common.log_file=absent/log"], "common.log_file=.*absent/log: there is no folder"),
        ([], "", ["task.num_classes=7"], "task.num_classes=7, but .* has 3 classes"),
        (["dataset.disable_validation=true"], "", [], "dataset.disable_validation=True: .*checkpoint_best.pt"),
        (["checkpoint.checkpoint_suffix=-x"], "", [], "checkpoint_suffix=-x: .*checkpoint_best.pt"),
        (["run_config=cpu"], "", [], "run_config=cpu: .*srun"),
        ([], "", ["run_config=cpu"], "run_config=cpu: .*srun"),
    ],
    ids=[
        "data",
        "experiment",
        "processes",
        "task",
        "key",
        "model",
        "number",
        "metric",
        "log",
        "classes",
        "validation",
        "suffix",
        "run_config",
        "run_config of the finetunings",
    ],
)
def test_what_is_wrong_is_said(
    keys: list[str], task_data: Path, more: list[str], task: str, finetuning: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        check("2", "1", [*keys, *more], [f"sst2={task or task_data}"], finetuning)


def test_a_task_that_was_prepared_as_another_one(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    shutil.copytree(task_data, tmp_path / "task")
    (tmp_path / "task" / "manifest.json").write_text('{"task": "qqp"}')
    with pytest.raises(UserError, match="task=sst2, but .* was prepared as qqp"):
        check("2", "1", keys, [f"sst2={tmp_path / 'task'}"], [])


def test_examples_that_are_longer_than_n(keys: list[str], task_data: Path) -> None:
    with pytest.raises(UserError, match="examples are longer than n = 8"):
        check("2", "1", [*keys, "model.max_positions=8", "task.tokens_per_sample=8"], [f"sst2={task_data}"], [])


@pytest.mark.parametrize(("stage", "name"), [("pretraining", "tiny"), ("finetuning", "tiny/sst2_lr0.0001_s1")])
def test_the_folder_of_another_run(stage: str, name: str, keys: list[str], task_data: Path, tmp_path: Path) -> None:
    record = {"schema": 1, "stage": stage, "name": name, "seed": 5, "paper": {}, "commit": None}
    record |= {"versions": {}, "model": {}, "max_update": 1, "attempts": [], "overrides": []}
    folder = tmp_path / "runs" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=f"{folder} holds a run with "):
        check("2", "1", keys, [f"sst2={task_data}"], ["dataset.batch_size=8"])


@pytest.mark.slow
def test_finetunings_in_one_folder(keys: list[str], task_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job of the array would find the folder of another one."""
    monkeypatch.setenv("LINFORMER_SEEDS", "1 2")
    for word in ("run.name=all", "checkpoint.save_dir=runs/all"):
        with pytest.raises(UserError, match="several runs would be in .*/runs/all: "):
            check("2", "1", keys, [f"sst2={task_data}"], ["dataset.batch_size=8", word])


@pytest.mark.slow
def test_the_folders_of_the_same_chain(
    keys: list[str], task_data: Path, tmp_path: Path, run_fairseq: Callable[..., str]
) -> None:
    short = ["optimization.max_update=2", "lr_scheduler.warmup_updates=1"]
    own = ["common.cpu=true", "run.precision=fp32", "dataset.num_workers=0", "dataset.batch_size=8", *short]
    start = ["pretrained=runs/tiny/checkpoint_best.pt", "task=sst2", f"task.data={task_data}", "lr=1e-4"]
    run_fairseq("linformer", "pretrain", "run_config=cpu", *keys, *short, cwd=tmp_path)
    run_fairseq("linformer", "finetune", "run_config=cpu", *start, *own, cwd=tmp_path)
    assert (tmp_path / "runs" / "tiny" / "sst2_lr0.0001_s1" / "run.json").is_file()
    check("2", "1", [*keys, *short], [f"sst2={task_data}"], own)
    longer = [*keys, *short, "optimization.max_update=3"]
    with pytest.raises(UserError, match="sst2_lr0.0001_s1 holds a finished run, but the pretraining will have other"):
        check("2", "1", longer, [f"sst2={task_data}"], own)
    check("2", "1", longer, [f"sst2={task_data}"], [*own, "optimization.max_update=4"])  # goes on from its own


@pytest.mark.slow
def test_a_learning_rate_that_is_no_number(keys: list[str], task_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINFORMER_LRS", "1e-4 fast")
    with pytest.raises(UserError, match="fast"):
        check("2", "1", keys, [f"sst2={task_data}"], [])


def test_a_task_with_a_padded_dictionary(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    shutil.copytree(task_data, tmp_path / "padded")
    dictionary.pad(tmp_path / "padded" / "input0" / "dict.txt")
    check("2", "1", keys, [f"sst2={tmp_path / 'padded'}"], ["dataset.batch_size=8"])


def test_a_task_of_another_tokenizer(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "input0").mkdir(parents=True)
    (other / "label").symlink_to(task_data / "label")
    for file in (task_data / "input0").iterdir():
        (other / "input0" / file.name).write_bytes(file.read_bytes())
    dict_txt = other / "input0" / "dict.txt"
    dict_txt.write_text("".join(f"other{line}\n" for line in dict_txt.read_text().splitlines()))
    with pytest.raises(UserError, match="its dictionary is not that of"):
        check("2", "1", keys, [f"sst2={other}"], [])


@pytest.mark.slow
def test_without_gpus_both_have_to_compute_on_cpus(keys: list[str], task_data: Path) -> None:
    cpu, task, own = "common.cpu=true", [f"sst2={task_data}"], ["dataset.batch_size=8", "run.precision=fp32"]
    on_gpus = [key for key in keys if key != cpu]
    for pretraining, finetuning, name in ((on_gpus, [*own, cpu], "pretraining"), (keys, own, "finetunings")):
        with pytest.raises(UserError, match=f"--gpus-per-node 0: {cpu} is missing among the keys of the {name}"):
            check("2", "0", pretraining, task, finetuning)
        check("2", "1", pretraining, task, finetuning)
    check("2", "0", keys, task, [*own, cpu])
