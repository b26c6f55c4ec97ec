"""What would stop a job of the chain is found before any is queued."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from scripts.slurm.check_chain import check


@pytest.fixture(autouse=True)
def _grid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINFORMER_LRS", "1e-4")
    monkeypatch.setenv("LINFORMER_SEEDS", "1")
    monkeypatch.setenv("SLURM_NTASKS", "")  # check sets it


def test_a_sound_chain_and_where_its_finetunings_start(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    found = check("2", keys, [f"sst2={task_data}"], ["dataset.batch_size=8"])
    assert found == tmp_path / "runs" / "tiny" / "checkpoint_best.pt"


@pytest.mark.parametrize(
    ("more", "task", "finetuning", "said"),
    [
        (["task.data=absent"], "", [], "absent: no such folder"),
        (["experiment=absent"], "", [], "absent"),
        (["run.tokens_per_update=768"], "", [], "run.tokens_per_update is 768"),
        ([], "absent", [], "absent: no such folder"),
        ([], "", ["sst3=x"], "sst3"),
    ],
    ids=["data", "experiment", "processes", "task", "key"],
)
def test_what_is_wrong_is_said(
    keys: list[str], task_data: Path, more: list[str], task: str, finetuning: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        check("2", [*keys, *more], [f"sst2={task or task_data}"], finetuning)


@pytest.mark.slow
def test_a_learning_rate_that_is_no_number(keys: list[str], task_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINFORMER_LRS", "1e-4 fast")
    with pytest.raises(UserError, match="fast"):
        check("2", keys, [f"sst2={task_data}"], [])


def test_a_task_with_a_padded_dictionary(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    shutil.copytree(task_data, tmp_path / "padded")
    dictionary.pad(tmp_path / "padded" / "input0" / "dict.txt")
    check("2", keys, [f"sst2={tmp_path / 'padded'}"], ["dataset.batch_size=8"])


def test_a_task_of_another_tokenizer(keys: list[str], task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "input0").mkdir(parents=True)
    (other / "label").symlink_to(task_data / "label")
    for file in (task_data / "input0").iterdir():
        (other / "input0" / file.name).write_bytes(file.read_bytes())
    (other / "input0" / "dict.txt").write_text("other 1\n")
    with pytest.raises(UserError, match="its dictionary is not that of"):
        check("2", keys, [f"sst2={other}"], [])
