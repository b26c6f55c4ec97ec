"""scripts/reproduce_learning.sh: the runs of each study, without running them, and wrong options."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from linformer_fairseq.files.shipped import shipped_folder

STUB = """#!/bin/bash
printf '%s\\n' "$*" >>"$LOG"
out=""
while (($# > 1)); do [[ $1 == --out ]] && out="$2"; shift; done
case "$(tail -n 1 -- "$LOG")" in
    "data binarize"*) mkdir -p "$out" && touch "$out"/{dict.txt,train.bin,valid.bin} ;;
    "data task"*) mkdir -p "$out/input0" && touch "$out/input0/dict.txt" ;;
    results*) [[ -z $out ]] || touch -- "$out" ;;
    "analyse spectrum"*)
        printf '%s\\n' "99 %: projected_dim=[[9,8],[5,4]]" "   one k with the same sum: 6"
        mkdir -p "$out" && echo '"untrained": {"0.9": [[1, 1]], "0.99": [[8, 8], [4, 4]]},' >"$out/spectrum.json" ;;
    convert*) ln -s "$CONVERTED" converted ;;
esac
"""

STUB_OF_PYTHON = """#!/bin/bash
if [[ $* == *reproduce_tools.runs* ]]; then
    while read -r _ words; do linformer $words; done
    exit
fi
while (($# > 1)); do [[ $1 == --out ]] && touch -- "$2"; shift; done
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What LINFORMER_DATA names, empty."""
    folder = tmp_path / "data"
    corpus = ("corpus/books.txt.xz", "corpus/wiki.txt.xz", "corpus/books.list.tsv")
    tasks = ("aclImdb.tar.xz", "aclImdb_full.tar.xz", "glue/SST-2", "glue/QNLI", "glue/QQP")
    for name in (*corpus, *tasks):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def run(checkout: Path, data: Path | None, *words: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script with a `linformer` that only notes what it is told; and what it was told."""
    log = checkout / "log"
    for program, stub in (("linformer", STUB), ("python", STUB_OF_PYTHON)):
        (checkout / ".venv/bin" / program).write_text(stub)
        (checkout / ".venv/bin" / program).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "LINFORMER_DATA"}
    environment |= {
        "LOG": str(log),
        "CONVERTED": str(shipped_folder("linformer-small")),
        **({"LINFORMER_DATA": str(data)} if data else {}),
    }
    command = [str(checkout / "scripts/reproduce_learning.sh"), *words]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120)
    return done, log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], "no study"),
        (["depth"], "depth"),
        (["length", "--seed", "3"], "--seed"),
        (["length", "--seeds", "many"], "--seeds many"),
        (["length", "--jobs"], "--jobs"),
    ],
)
def test_wrong_use_is_said_before_anything_is_done(checkout: Path, data: Path, words: list[str], value: str) -> None:
    done, told = run(checkout, data, *words)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and value in done.stderr and told == []


def test_without_data(checkout: Path, data: Path) -> None:
    done, told = run(checkout, None, "length")
    assert done.returncode == 1 and "LINFORMER_DATA" in done.stderr and told == []
    (data / "aclImdb.tar.xz").unlink()
    done, told = run(checkout, data, "length")
    assert done.returncode == 1 and "aclImdb.tar.xz" in done.stderr and told == []


@pytest.mark.slow
def test_runs_on_other_data_of_a_task_are_refused(checkout: Path, data: Path) -> None:
    words = ("released", "--seeds", "1", "--jobs", "1")
    for _ in range(2):
        done, _ = run(checkout, data, *words)
        assert done.returncode == 0, done.stderr
    (data / "glue" / "QNLI").write_text("another file")
    done, told = run(checkout, data, *words)
    assert done.returncode == 1 and "reproduce_released/qnli and the runs on it were made from another" in done.stderr
    assert not told[-1].startswith("results")


@pytest.mark.slow
def test_the_classifier_for_release_is_the_most_accurate_one(checkout: Path, data: Path) -> None:
    words = ("released", "--seeds", "3", "--jobs", "1")
    done, told = run(checkout, data, *words)
    assert done.returncode == 0, done.stderr
    [runs] = {word.split("=")[1] for line in told for word in line.split() if word.startswith("run.runs=")}
    for seed, accuracies in {1: ("80.1", "83.7"), 2: ("70", "84.3"), 3: ("9.5", "83.9")}.items():
        folder = checkout / "reproduce_released" / runs / "linformer_reviews_s2" / f"sst2_lr0.0001_s{seed}"
        folder.mkdir(parents=True)
        lines = [f'{{"valid_accuracy": "1", "valid_best_accuracy": "{accuracy}"}}\n' for accuracy in accuracies]
        (folder / "train.log").write_text("".join(lines))
    done, told = run(checkout, data, *words)
    assert done.returncode == 0, done.stderr
    released = [line.split()[2] for line in told if line.startswith("checkpoint release") and "--data sst2" in line]
    assert released[-1].endswith("linformer_reviews_s2/sst2_lr0.0001_s2/checkpoint_best.pt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "pretrained", "finetuned", "second_seed"),
    [
        ("projections", 63, 58, 121),
        ("length", 12, 26, 38),
        ("plateau", 2, 4, 6),
        ("released", 9, 18, 11),
        ("conversion", 3, 0, 2),
    ],
)
def test_the_runs_of_a_study_are_runs_that_can_be_composed(
    checkout: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    study: str,
    pretrained: int,
    finetuned: int,
    second_seed: int,
) -> None:
    from linformer_fairseq.launch import compose

    done, told = run(checkout, data, study, "--seeds", "2", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    runs = [line.split() for line in told if line.split()[0] in ("pretrain", "finetune")]
    assert len({tuple(words) for words in runs}) == len(runs)
    first = [words for words in runs if "common.seed=1" in words]
    assert len(runs) == len(first) + second_seed
    assert [sum(words[0] == kind for words in first) for kind in ("pretrain", "finetune")] == [pretrained, finetuned]
    monkeypatch.chdir(checkout / f"reproduce_{study}")  # where the runs find a converted model
    # Of runs that differ in names and numbers alone, one is enough.
    kinds = {tuple(re.sub("^(run.name|pretrained)=.*|[0-9.]+", "", word) for word in words): words for words in first}
    for command, *overrides in kinds.values():
        compose({"pretrain": "pretraining", "finetune": "finetuning"}[command], overrides)
    named = [word for words in first if words[0] == "pretrain" for word in words if word.startswith("run.name=")]
    assert len(set(named)) == pretrained
