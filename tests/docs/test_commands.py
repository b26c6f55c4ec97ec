"""Commands in the documentation name programs, options and configs that exist; those that need nothing are run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fairseq import options

from benchmarks import __main__ as benchmarks
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import config_dir
from linformer_fairseq.launch.compose import overrides_for_hydra
from tests.conftest import REPOSITORY
from tests.docs.commands import check_options, commands_of, help_of_main, help_of_script
from tests.docs.pages import GUIDES, Block, blocks, name_of

STAGES = {"pretrain": "pretraining", "finetune": "finetuning"}
# Programs that are not ours.
FOREIGN = {"source", "git", "cd", "cut", "echo", "mkdir", "sed", "zcat", "pipx", ".venv/bin/pre-commit"}
BASH = blocks("bash")
COMMANDS = [(block, words) for block in BASH for words in commands_of(block)]


def check(words: Sequence[str]) -> None:
    """Refuse a command that names something that does not exist.

    Raises:
        ValueError: what does not exist.
    """
    program, *rest = words
    if program == "linformer":
        _check_linformer(rest)
    elif program == "fairseq-train":
        _check_fairseq(rest)
    elif program == "python":
        _check_python(rest)
    elif program in ("pip", ".venv/bin/pip"):
        _check_pip(rest)
    elif program == "sbatch":
        script = next((i for i, word in enumerate(rest) if word.endswith(".sbatch")), None)
        if script is None:
            raise ValueError("sbatch: no script")
        check(rest[script:])
    elif program.endswith((".sh", ".sbatch")):
        _check_script(program, rest)
    elif program not in FOREIGN:
        raise ValueError(f"a program that this test does not know: {program}")


def _check_linformer(words: Sequence[str]) -> None:
    if words[0] == "benchmark":
        return _check_benchmark(words[1:])
    command = [words[0]]
    text = help_of_main("linformer_fairseq.cli", *command)
    if "ACTION" in text or "PROGRAM" in text or "FORMAT" in text:
        command.append(words[1])
        text = help_of_main("linformer_fairseq.cli", *command)
    rest = words[len(command) :]
    check_options(text, rest)
    if command[0] in STAGES:
        _check_overrides(STAGES[command[0]], [word for word in rest if not word.startswith("-")])


def _check_overrides(stage: str, words: Sequence[str]) -> None:
    try:
        overrides_for_hydra(stage, words)
    except UserError as error:
        raise ValueError(str(error)) from None


def _check_benchmark(words: Sequence[str]) -> None:
    if words[0] not in benchmarks.PROGRAMS:
        raise ValueError(f"no benchmark {words[0]}")
    check_options(help_of_main("benchmarks.__main__", words[0]), words[1:])


def _check_python(words: Sequence[str]) -> None:
    if words[:2] == ["-m", "pytest"]:
        for word in words[2:]:
            _check_file(word)
    elif words[:2] == ["-m", "benchmarks"]:
        _check_benchmark(words[2:])
    elif words[0] == "-m":
        check_options(help_of_main(words[1]), words[2:])
    else:
        _check_file(words[0])
        module = words[0].removesuffix(".py").replace("/", ".")
        done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, cwd=REPOSITORY)
        check_options(done.stdout, words[1:])


def _check_pip(words: Sequence[str]) -> None:
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"\[(.*?)\]", " ".join(words)):
        for extra in extras.split(","):
            if extra not in known:
                raise ValueError(f"no extra {extra}")


def _check_fairseq(words: Sequence[str]) -> None:
    given = [str(REPOSITORY / "linformer_fairseq") if "linformer user-dir" in word else word for word in words]
    try:
        options.parse_args_and_arch(options.get_training_parser(), input_args=given)
    except SystemExit:
        raise ValueError(f"fairseq-train refuses {' '.join(words)}") from None


def _check_script(path: str, words: Sequence[str]) -> None:
    check_options(help_of_script(path), words)
    keys = [word for word in words if re.match(r"[\w.]+=", word)]
    if path == "scripts/slurm/submit_chain.sh":
        behind = words[words.index("--") + 1 :]
        for task in (word.partition("=")[0] for word in behind):
            _check_config("task", task)
        keys = [word for word in keys if word not in behind]
    if keys:
        _check_overrides("finetuning" if "finetune" in Path(path).name else "pretraining", keys)


def _check_file(path: str) -> None:
    if not (REPOSITORY / path).exists():
        raise ValueError(f"no file {path}")


def _check_config(group: str, name: str) -> None:
    if name != "null" and not (config_dir() / group / f"{name}.yaml").is_file():
        raise ValueError(f"no config {group}={name}")


@pytest.mark.parametrize("block", BASH, ids=str)
def test_blocks_parse(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("block", "words"), COMMANDS, ids=[f"{b}: {' '.join(w)[:60]}" for b, w in COMMANDS])
def test_commands_name_what_exists(block: Block, words: list[str]) -> None:
    check(words)


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_configs_that_pages_name_exist(page: Path) -> None:
    for group, name in re.findall(
        r"(?<![\w.])(experiment|model|task|run_config|data)=([a-z][\w/]*)", page.read_text(encoding="utf-8")
    ):
        _check_config(group, name)


@pytest.mark.parametrize(
    "command",
    [
        "linformer retrain",
        "linformer pretrain --try",
        "linformer pretrain experiment=linformer_huge task.data=work/bin",
        "linformer pretrain modle.sharing=none task.data=work/bin",
        "linformer finetune task=cola task.data=work/cola",
        "linformer data corpora --out work/text book.txt",
        "linformer data binarize --shard 8 --out work/bin work/text",
        "linformer checkpoint repair runs",
        "linformer results table2 --format html",
        "linformer benchmark speed",
        "linformer benchmark inference --preset table4",
        "fairseq-train work/bin --user-dir linformer_fairseq --arch linformer_roberta_huge",
        "fairseq-train work/bin --user-dir linformer_fairseq --arch linformer_roberta_base --projected-dims 128",
        "python -m data_prep.binarise --out work/bin text",
        "python -m data_prep.binarize --shard 8 --out work/bin text",
        "python -m pytest tests/nothing.py",
        "python benchmarks/nothing.py",
        "pip install '.[everything]'",
        "scripts/quickstart.sh --length 512",
        "scripts/nothing.sh",
        "scripts/slurm/submit_chain.sh experiment=linformer_huge task.data=work/bin -- sst2=work/sst2",
        "scripts/slurm/submit_chain.sh task.data=work/bin -- cola=work/cola",
        "sbatch --nodes=2 scripts/slurm/pretrain.sbatch experiment=linformer_huge",
        "unknown-program",
    ],
)
def test_what_does_not_exist_is_found(command: str) -> None:
    (words,) = commands_of(Block(REPOSITORY / "README.md", 1, "bash", command + "\n"))
    with pytest.raises(ValueError):
        check(words)


def test_commands_are_found_where_they_are() -> None:
    text = "run=a/b; X=1 first $run/c \\\n  --option 'x y'  # remark\nsecond | third \"$(fourth inside)\"\n"
    words = list(commands_of(Block(REPOSITORY / "README.md", 1, "bash", text)))
    assert words == [
        ["fourth", "inside"],
        ["first", "$run/c", "--option", "x y"],
        ["second"],
        ["third", "$(fourth inside)"],
    ]


def runs_offline(words: Sequence[str]) -> bool:
    """Whether a command needs neither a network, nor a GPU, nor a model, nor more than some seconds."""
    return (
        words[:2] in (["linformer", "doctor"], ["linformer", "user-dir"], ["linformer", "experiments"])
        or words[:3] == ["linformer", "pretrain", "--dry-run"]
        or (words[:2] == ["linformer", "results"] and "--runs" in words)
    )


RUNNABLE = sorted({tuple(words) for _, words in COMMANDS if runs_offline(words)})


@pytest.mark.slow
@pytest.mark.parametrize("words", RUNNABLE, ids=" ".join)
def test_commands_that_need_nothing_run(
    words: Sequence[str], run_fairseq: Callable[..., str], tiny_corpus: Path, tmp_path: Path
) -> None:
    shutil.copytree(REPOSITORY / "results", tmp_path / "results")
    shutil.copytree(tiny_corpus, tmp_path / "work" / "bin")
    assert run_fairseq(*words, cwd=tmp_path).strip()
