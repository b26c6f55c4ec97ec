"""scripts/prepare_task.sh: which files it takes, and what it hands on."""

import subprocess
from pathlib import Path

import pytest


def run(checkout: Path, *words: str, data: Path | None = None) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/bin:/bin", **({"LINFORMER_DATA": str(data)} if data else {})}
    command = ["bash", str(checkout / "scripts" / "prepare_task.sh"), *words]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)


def test_options_are_handed_on(checkout: Path) -> None:
    done = run(checkout, "qqp", "--from", "my files", "--out", "x", "--strict")
    assert done.stdout == "-m|data_prep.prepare_task|qqp|--from|my files|--out|x|--strict|\n", done.stderr
    assert done.stderr == "$ python -m data_prep.prepare_task qqp --from 'my files' --out x --strict\n"


@pytest.mark.parametrize(
    ("task", "place"),
    [
        ("sst2", "glue/SST-2"),
        ("qnli", "glue/QNLIv2.zip"),
        ("qqp", "glue/QQP-clean.zip"),
        ("imdb", "aclImdb.tar.xz"),
        ("imdb", "aclImdb_v1.tar.gz"),
    ],
)
def test_files_are_found(checkout: Path, tmp_path: Path, task: str, place: str) -> None:
    path = tmp_path / "my data" / place
    path.mkdir(parents=True)
    done = run(checkout, task, "--out", "x", data=tmp_path / "my data")
    assert done.stdout == f"-m|data_prep.prepare_task|{task}|--from|{path}|--out|x|\n", done.stderr


def test_without_files_there_is_the_hub(checkout: Path, tmp_path: Path) -> None:
    assert run(checkout, "sst2").stdout == "-m|data_prep.prepare_task|sst2|--from|hub|\n"
    done = run(checkout, "sst2", data=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert "no files of sst2 under LINFORMER_DATA=" in done.stderr and "give --from PATH, or --from hub" in done.stderr


def test_wrong_usage(checkout: Path) -> None:
    for words, message in (
        ((), "expected a task: sst2"),
        (("cola",), "cola: expected a task: sst2, qnli, qqp or imdb"),
    ):
        done = run(checkout, *words)
        assert done.returncode == 1 and f"error: {message}" in done.stderr
    for words in (("--help",), ("sst2", "--help")):
        done = run(checkout, *words)
        assert done.returncode == 0 and done.stdout.startswith("usage: scripts/prepare_task.sh")
