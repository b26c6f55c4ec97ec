"""scripts/quickstart.sh, scaled down: stopped by Ctrl-C, carried on, and what it says to wrong options."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "quickstart.sh"
SHIPPED = Path("linformer_fairseq", "weights", "linformer-small")
SMALL = ("--updates", "30", "--finetune-updates", "20", "--vocab-size", "1000", "--venv", sys.prefix)


def _clone(folder: Path) -> Path:
    """A copy of what the quickstart uses, without the models that come with the package."""
    for part in ("scripts", "configs", "data_prep", "linformer_fairseq"):
        shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "weights"))
    return folder


def _start(clone: Path, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start the quickstart of a clone in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [clone / "scripts" / "quickstart.sh", *arguments],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(clone)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _interrupt_when(process: subprocess.Popen[str], condition: Callable[[], bool]) -> str:
    """Send Ctrl-C to the group once ``condition`` holds; returns the output."""
    deadline = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    assert output.count("Stopped by Ctrl-C. The same command carries on from here") == 1, output
    assert "Traceback" not in output and "Error" not in output, output
    return output


@pytest.mark.slow
def test_interrupted_twice_and_carried_on(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    from tests.models import make_pretrained

    clone, out = _clone(tmp_path / "clone"), tmp_path / "a folder" / "run"
    shipped = make_pretrained(tmp_path / "stand-in", n=128, out=clone / SHIPPED)
    arguments = (clone, "--out", os.path.relpath(out, tmp_path), *SMALL)

    _interrupt_when(_start(*arguments, cwd=tmp_path), lambda: (out / "text").exists())
    checkpoint = out / "pretrain_linformer" / "checkpoint_last.pt"
    output = _interrupt_when(_start(*arguments, cwd=tmp_path), checkpoint.exists)
    assert "==> sentencepiece model\n" in output
    text_written = (out / "text" / "train" / "00000.txt").stat().st_mtime_ns

    process = _start(*arguments, cwd=tmp_path)
    output, _ = process.communicate(timeout=1500)
    assert "==> text: already done" in output
    assert (out / "text" / "train" / "00000.txt").stat().st_mtime_ns == text_written
    console = (out / "pretrain_linformer" / "output.log").read_text()
    assert "(epoch 1 @ 10 updates)" in console or "(epoch 1 @ 20 updates)" in console, console[-3000:]
    assert re.findall("continuing at update ([12]0) of 30\n", output)
    assert console.count("num_updates: 30 >= max_update: 30") == 1

    # So short a training learns too little, and that is said; the table and the figures are there all the same.
    assert process.returncode == 1, output
    assert "error: not everything was learned: " in output
    assert "| tokens per second in pretraining" in output
    report = json.loads((out / "report" / "report.json").read_text())
    assert len(report["missed"]) >= 1 and report["provenance"]["python"]
    for model, title in (("linformer", "Linformer"), ("roberta", "RoBERTa")):
        log = (out / f"pretrain_{model}" / "train.log").read_text()
        figures = report["models"][title]
        last = [json.loads(line) for line in log.splitlines() if '"valid_ppl"' in line][-1]
        assert figures["perplexity_after"] == pytest.approx(float(last["valid_ppl"]), rel=1e-3)
        assert 900 < figures["perplexity_before"] < 2500  # the size of the vocabulary or worse: it knows nothing
        assert figures["perplexity_after"] < figures["perplexity_before"]
    assert (out / "report" / "perplexity.png").stat().st_size > 5000

    command = re.search("^The Linformer's accuracy is that of: (.+)$", output, re.MULTILINE)
    assert command is not None
    evaluated = subprocess.run(shlex.split(command[1]), capture_output=True, text=True, check=True, timeout=120)
    accuracy = re.search(r"accuracy (\S+) %", evaluated.stdout)
    assert accuracy is not None
    assert float(accuracy[1]) == pytest.approx(report["models"]["Linformer"]["accuracy"], abs=0.06)

    # The model of the package has learned nothing either, but it was finetuned, and is the third column.
    assert re.search(r"^\| +\| +Linformer \| +RoBERTa \| +linformer-small \|$", output, re.MULTILINE), output
    assert str(shipped / "model.safetensors") in (out / "finetune_shipped" / "config.yaml").read_text()
    figures = report["models"]["linformer-small"]
    assert figures["finetuning_updates"] == 20 and figures["perplexity_after"] is None and figures["accuracy"] > 0
    assert report["models"]["Linformer"]["finetuning_updates"] == 20
    for model in ("Linformer", "linformer-small"):
        assert f"What {model} puts for <mask>:" in output
        for mask in report["fill_mask"][model]:
            assert mask["sentence"].count("<mask>") == 1 and len(mask["fillers"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text"], "--text: expected one file or more"),
        (["--text", ""], "--text: one of the paths is empty"),
        (["--out", ""], "--out: expected a value"),
        (["--text", "absent.txt"], "absent.txt: no such file, or not readable"),
        (["--updates", "ten"], "--updates ten: expected a whole number above 0"),
        (["--out"], "--out: expected a value"),
        (["--speed"], "unknown argument: --speed"),
        (["--venv", "nowhere"], "nowhere: no environment with fairseq"),
        (["--out", "other"], "other: this folder holds other files"),
        (["--out", "a:b"], "fairseq cannot read a path with a colon"),
    ],
)
def test_wrong_options_are_said(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Before the set-up, which would take longer than the limit, and change this checkout."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious.txt").write_text("mine")
    result = subprocess.run([SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert message in result.stderr and "Traceback" not in result.stderr
    assert (tmp_path / "other" / "precious.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.rglob("*")] == ["other", "precious.txt"]


def test_text_in_the_output_folder_is_not_lost(tmp_path: Path) -> None:
    novel = tmp_path / "out" / "text" / "novel.txt"
    novel.parent.mkdir(parents=True)
    novel.write_text("mine")
    (tmp_path / "out" / ".linformer-quickstart").touch()
    words = [SCRIPT, "--text", novel, "--out", tmp_path / "out"]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and f"--text {novel}: is in the output folder" in result.stderr
    assert novel.read_text() == "mine"


def test_help_says_what_it_does(tmp_path: Path) -> None:
    result = subprocess.run([SCRIPT, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    assert "usage: scripts/quickstart.sh" in result.stdout and "130 stopped by Ctrl-C" in result.stdout


STUB = """#!/bin/bash
# Stands for every program of the quickstart: all folders of steps have an output when it has run.
[[ "$*" != -c* ]] || exit 1
cd -- "$QUICKSTART_OUT"
mkdir -p text/{train,valid} tokenizer bin task_text task_bin{,_shipped}/label report
mkdir -p {pretrain,finetune}_{linformer,roberta} finetune_shipped
touch text/{train,valid}/0.txt tokenizer/model bin/train.bin task_text/{train.tsv,stats.json} report/report.md
touch task_bin{,_shipped}/label/dict.txt {pretrain,finetune}_{linformer,roberta}/checkpoint_{best,last}.pt
touch finetune_shipped/checkpoint_last.pt
"""


@pytest.mark.slow
def test_what_a_change_of_the_code_touches_is_done_again(tmp_path: Path) -> None:
    clone, out, programs = _clone(tmp_path / "clone"), tmp_path / "out", tmp_path / "env" / "bin"
    shipped = clone / SHIPPED
    programs.mkdir(parents=True)
    for name in ("python", "fairseq-train", "linformer"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)

    def steps() -> tuple[list[str], str]:
        command = [clone / "scripts" / "quickstart.sh", "--out", out, "--venv", programs.parent]
        environment = os.environ | {"QUICKSTART_OUT": str(out)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        found = re.findall("^==> (.+)$", result.stdout, re.MULTILINE)
        assert result.stdout.startswith(f"{len(found)} steps; ")
        return found, result.stderr

    def done_again() -> set[str]:
        found, warnings = steps()
        assert len(found) == 12 and warnings == ""
        return {step for step in found if not step.endswith(": already done")}

    def change(path: str) -> None:
        with next(clone.glob(path)).open("a") as stream:
            stream.write("# changed\n")

    found, warnings = steps()
    assert len(found) == 10 and "linformer-small" not in " ".join(found)
    assert warnings.startswith("warning: left out linformer-small") and warnings.count("\n") == 1

    shipped.mkdir(parents=True)
    for name in ("model.safetensors", "dict.txt", "sentencepiece.bpe.model"):
        (shipped / name).write_text(name)
    of_shipped = {"labelled text in the pieces of linformer-small", "finetune linformer-small", "evaluate and compare"}
    assert done_again() == of_shipped  # and nothing else a second time
    change(str(SHIPPED / "model.safetensors"))
    assert done_again() == of_shipped
    for part in ("optim", "tasks", "evaluation", "launch"):
        change(f"linformer_fairseq/{part}/[a-z]*.py")
        again = done_again()
        assert {step.split()[0] for step in again} == {"pretrain", "finetune", "evaluate"} and len(again) == 6, part
    for path in ("data_prep/support/step.py", "linformer_fairseq/files/atomic.py"):
        change(path)
        assert "sentencepiece model" in done_again(), path


def test_paths_that_scripts_and_configs_name_are_there() -> None:
    for folder in ("scripts", "configs"):
        count = 0
        for path in sorted((REPOSITORY / folder).rglob("*.*")):
            if path.suffix in (".sh", ".yaml", ".sbatch"):
                for name in re.findall(r"\b(?:configs|scripts|data_prep)(?:/\w+)+(?:\.\w+)?", path.read_text()):
                    assert (REPOSITORY / name).exists(), f"{path}: {name}"
                    count += 1
        assert count >= 20, folder
