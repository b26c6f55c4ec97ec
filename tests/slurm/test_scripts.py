"""The batch scripts and submit_chain.sh without a SLURM: what they print, refuse and would submit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.messages import says

SCRIPTS = REPOSITORY / "scripts" / "slurm"
BATCH_SCRIPTS = sorted(SCRIPTS.glob("*.sbatch"))

Chain = Callable[..., subprocess.CompletedProcess[str]]


def _run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "LINFORMER"))}
    return subprocess.run(
        [*map(str, words)], env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("script", BATCH_SCRIPTS, ids=lambda script: script.name)
def test_a_batch_script_explains_itself(script: Path) -> None:
    done = _run("bash", script, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: sbatch ") and not done.stderr
    outside = _run("bash", script, "task.data=x")
    assert outside.returncode == 2 and "submit it with sbatch" in outside.stderr
    text = script.read_text()
    for option in ("--requeue", "--open-mode=append", "--signal=B:USR1@120", "--time=", "--gpus-per-node="):
        assert f"\n#SBATCH {option}" in text


def test_the_grid_is_that_of_the_config() -> None:
    """Three learning rates and five seeds stand in the config, in the array script and in submit_chain.sh."""
    config = (REPOSITORY / "configs" / "finetuning.yaml").read_text()
    assert "lr: 1e-5,2e-5,3e-5\n" in config and "common.seed: 1,2,3,4,5\n" in config
    array = (SCRIPTS / "finetune_array.sbatch").read_text()
    chain = (SCRIPTS / "submit_chain.sh").read_text()
    for text in (array, chain):
        assert "${LINFORMER_LRS:-1e-5 2e-5 3e-5}" in text and "${LINFORMER_SEEDS:-1 2 3 4 5}" in text
    assert "#SBATCH --array=0-14\n" in array


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    """``chain(*words, fails_at=N)`` runs submit_chain.sh; the N-th sbatch fails. `log` tells the calls."""
    log = tmp_path / "log"
    stubs = {
        "sbatch": f'n=$(grep -c ^sbatch {log})\nprintf "sbatch" >>{log}; printf " [%s]" "$@" >>{log}; echo >>{log}\n'
        "((n + 1 != FAILS_AT)) || exit 1\necho $((n + 101))",
        "scancel": f'echo "scancel $*" >>{log}',
        "python": f'echo "python $*" >>{log}; [[ $* != *bad* ]] && '
        'printf "%s\\n" "pretrained=/r u n/x/checkpoint_best.pt" "/r u n/x" "fine tuned"',
    }
    log.touch()
    for name, body in stubs.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)

    def run(*words: object, fails_at: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        log.write_text("")
        path = f"{tmp_path}:{os.environ['PATH']}"
        fixed = {"PATH": path, "FAILS_AT": str(fails_at), "LINFORMER_PYTHON": str(tmp_path / "python")}
        return _run("env", f"--chdir={tmp_path}", SCRIPTS / "submit_chain.sh", *words, **fixed, **environment)

    return run


def test_jobs_of_a_chain_wait_for_each_other(chain: Chain, tmp_path: Path) -> None:
    done = chain(
        *("--nodes", "2", "--all", "--partition=gpu --account=nlp", "--finetune", "--time=60", "--pretrain", "--qos=x"),
        *("experiment=e", "task.data=a b", "--", "sst2=w/sst2", "dataset.batch_size=8", "qnli=w/qnli"),
        LINFORMER_SEEDS="1 2",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["pretrain", "101", "finetune-sst2", "102", "finetune-qnli", "103", "collect", "104"]
    check, pretrain, sst2, qnli, collect = (tmp_path / "log").read_text().splitlines()
    assert check.endswith(
        "check_chain.py 16 8 experiment=e task.data=a b -- sst2=w/sst2 qnli=w/qnli -- dataset.batch_size=8"
    )
    ours, theirs = (
        "[--nodes=2] [--ntasks-per-node=8] [--gpus-per-node=8]",
        "[--partition=gpu] [--account=nlp] [--qos=x]",
    )
    assert f"{ours} {theirs}" in pretrain, "of two values sbatch takes the last, which is to be the user's"
    assert pretrain.endswith("pretrain.sbatch] [experiment=e] [task.data=a b]") and "--time" not in pretrain
    for name, line in (("sst2", sst2), ("qnli", qnli)):
        assert "[--gpus-per-node=1] [--partition=gpu] [--account=nlp] [--time=60]" in line
        assert f"[--array=0-5] [--job-name=finetune-{name}]" in line
        assert "[--dependency=afterok:101] [--kill-on-invalid-dep=yes]" in line
        words = f"[task={name}] [task.data=w/{name}] [pretrained=/r u n/x/checkpoint_best.pt] [dataset.batch_size=8]"
        assert line.endswith(f"finetune_array.sbatch] {words}")
    assert "--qos" not in sst2 + qnli + collect
    assert "[--dependency=afterany:102:103]" in collect and "[--partition=gpu] [--account=nlp]" in collect
    assert collect.endswith("'-m' 'linformer_fairseq.cli' 'results' 'collect' '/r u n/x' 'fine tuned' ]")
    assert "[--wrap='env' 'PYTHONSAFEPATH=1' " in collect, "modules where it is submitted are not the package's"
    assert (tmp_path / "logs").is_dir() and (tmp_path / "fine tuned").is_dir()


def test_words_are_quoted_for_every_shell() -> None:
    words = ["a b", "it's", "é\ttab", "$HOME", "back\\slash", "&", "", "new\nline"]
    quoted = _run("bash", "-c", '. "$0" && LC_ALL=C single_quoted "$@"', SCRIPTS.parent / "lib" / "common.sh", *words)
    assert _run("sh", "-c", f"printf '%s|' {quoted.stdout}").stdout == "|".join([*words, ""])


def test_without_gpus_the_finetunings_have_none_either(chain: Chain, tmp_path: Path) -> None:
    assert chain("--gpus-per-node", "0", "a=b", "--", "sst2=x").returncode == 0
    pretrain, sst2 = (line for line in (tmp_path / "log").read_text().splitlines() if "--gpus-per-node" in line)
    assert "[--gpus-per-node=0]" in pretrain and "[--gpus-per-node=0]" in sst2


@pytest.mark.parametrize(
    "option", ["--nodes=2", "-N2", "--ntasks-per-node=4", "-n 4", "--dependency=afterok:7", "--test-only"]
)
@pytest.mark.parametrize("of", ["--all", "--pretrain", "--finetune"])
def test_options_of_sbatch_that_would_change_what_was_checked_are_refused(
    chain: Chain, tmp_path: Path, of: str, option: str
) -> None:
    done = chain(of, f"--mem=9G {option}", "a=b", "--", "sst2=x")
    assert done.returncode == 2 and says(done.stderr, f"error: {option.split()[0]}")
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("key", ["lr=1e-4", "+lr=1e-4", "optimization.lr=[1e-4]", "common.seed=3"])
def test_keys_that_the_grid_sets_are_refused(chain: Chain, tmp_path: Path, key: str) -> None:
    done = chain("a=b", "--", "sst2=x", key)
    assert done.returncode == 1 and says(done.stderr, f"error: {key}", "LINFORMER_LRS", "LINFORMER_SEEDS")
    assert (tmp_path / "log").read_text() == ""


def test_a_chain_is_queued_whole_or_not_at_all(chain: Chain, tmp_path: Path) -> None:
    done = chain("a=b", "--", "sst2=x", fails_at=3)
    assert done.returncode == 1 and "those before it were taken back" in done.stderr
    assert (tmp_path / "log").read_text().splitlines()[-1] == "scancel 101 102"
    done = chain("bad=b", "--", "sst2=x")
    assert done.returncode == 1 and "sbatch" not in (tmp_path / "log").read_text()


def test_a_python_that_is_missing_is_said(chain: Chain, tmp_path: Path) -> None:
    (tmp_path / "python").unlink()
    done = chain("--dry-run", "a=b", "--", "sst2=x")
    assert done.returncode == 1 and says(done.stderr, f"error: {tmp_path}/python", "LINFORMER_PYTHON")
    assert done.stderr.count("\n") == 1


def test_a_python_without_the_packages_is_said(chain: Chain, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
    done = chain("--dry-run", "a=b", "--", "sst2=x")
    assert done.returncode == 1 and says(done.stderr, "has no fairseq, hydra", "LINFORMER_PYTHON")
    assert done.stderr.count("\n") == 1


def _commands(printed: str, tmp_path: Path, grid: str = "") -> int:
    """The calls of sbatch that a dry run prints, with what the jobs take from the environment."""
    whole = printed.replace(" \\\n     ", "")  # long ones take several lines
    return whole.count(f"$ env {grid}LINFORMER_PYTHON={tmp_path}/python sbatch ")


def test_a_dry_run_needs_no_slurm(chain: Chain, tmp_path: Path) -> None:
    (tmp_path / "sbatch").unlink()
    assert chain("a=b", "--", "sst2=x").returncode == 1
    done = chain("--dry-run", "a=b", "--", "sst2=x")
    assert done.returncode == 0 and _commands(done.stdout, tmp_path) == 3, done.stderr


def test_a_dry_run_submits_nothing(chain: Chain, tmp_path: Path) -> None:
    done = chain("--dry-run", "a=b", "--", "sst2=x")
    assert done.returncode == 0 and "sbatch" not in (tmp_path / "log").read_text()
    assert _commands(done.stdout, tmp_path) == 3 and "--dependency=afterok:JOB1" in done.stdout
    assert not (tmp_path / "logs").exists()


def test_a_dry_run_prints_what_the_jobs_take_from_the_environment(chain: Chain, tmp_path: Path) -> None:
    done = chain("--dry-run", "a=b", "--", "sst2=x", LINFORMER_LRS="1e-4 2e-4")
    assert _commands(done.stdout, tmp_path, "'LINFORMER_LRS=1e-4 2e-4' ") == 3


@pytest.mark.parametrize("passed", ["NONE", "NIL", "PATH,LINFORMER_PYTHON", "LINFORMER_LRS,PATH"])
@pytest.mark.parametrize("of", ["--all", "--finetune", "SBATCH_EXPORT"])
def test_a_grid_that_would_not_reach_the_jobs_is_refused(chain: Chain, tmp_path: Path, of: str, passed: str) -> None:
    words = ("a=b", "--", "sst2=x")
    if of.startswith("--"):
        done = chain(of, f"--time=5 --export={passed}", *words, LINFORMER_LRS="1e-4")
    else:
        done = chain(*words, LINFORMER_LRS="1e-4", **{of: passed})
    lost = "LINFORMER_PYTHON" if passed.startswith("LINFORMER_LRS") else "LINFORMER_LRS"
    assert done.returncode == 2 and says(done.stderr, passed, f"{lost} would not reach the jobs")
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("passed", ["ALL", "PATH,ALL", "LINFORMER_LRS,X=1,LINFORMER_PYTHON=p"])
def test_a_grid_that_reaches_the_jobs(chain: Chain, passed: str) -> None:
    done = chain("--all", f"--export={passed}", "a=b", "--", "sst2=x", LINFORMER_LRS="1e-4")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["LINFORMER_LRS", "LINFORMER_SEEDS"])
def test_an_empty_grid_is_refused(chain: Chain, tmp_path: Path, name: str) -> None:
    done = chain("--dry-run", "a=b", "--", "sst2=x", **{name: " "})
    assert done.returncode == 2 and says(done.stderr, f"error: {name}=' '")
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=b"], "expected -- and the tasks"),
        (["a=b", "--"], "expected a task behind --"),
        (["a=b", "--", "cola=x"], "expected a task behind --"),
        (["--", "sst2=x"], "the keys of the pretraining come before --"),
        (["--partition=gpu", "a=b", "--", "sst2=x"], "unknown argument: --partition=gpu"),
        (["--nodes"], "--nodes: expected a value"),
        (["--nodes", "x", "a=b", "--", "sst2=x"], "--nodes x: expected a whole number"),
        (["--gpus-per-node", "-1", "a=b", "--", "sst2=x"], "--gpus-per-node -1: expected a whole number"),
        (["a=b", "--", "sst2=x", "--", "lr=1"], "-- behind --: expected TASK=DIR"),
    ],
)
def test_wrong_usage_of_the_chain(chain: Chain, tmp_path: Path, words: list[str], said: str) -> None:
    done = chain(*words)
    assert done.returncode == 2 and said in done.stderr
    assert (tmp_path / "log").read_text() == ""
