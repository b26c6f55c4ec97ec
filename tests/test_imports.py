"""The parts depend on each other in one direction, and core on torch alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "linformer_fairseq"
# Each part, and what of the project it may import.
MAY_IMPORT = {
    "core": {"core"},
    "files": {"files"},
    "web": {"web"},
    "checkpoints": {"checkpoints", "files"},
    "training": {"training", "files"},
    "patches": {"patches", "checkpoints", "training", "core", "files"},
    "modules": {"core", "modules", "files"},
    "prediction": {"prediction", "files"},
    "models": {"core", "modules", "checkpoints", "models", "prediction", "files"},
    "optim": {"optim"},
    "tasks": {"tasks", "files"},
    "conversion": {"conversion", "models", "core", "checkpoints", "files"},
    "evaluation": {"evaluation", "models", "tasks", "checkpoints", "files"},
    "demo": {"demo", "models", "prediction", "web", "files"},
    "launch": {"launch", "training", "patches", "checkpoints", "models", "tasks", "core", "files"},
    "planning": {"planning", "launch", "models", "core", "tasks", "files"},
    "results": {"results", "files"},
    "analysis": {"analysis", "conversion", "evaluation", "models", "core", "prediction", "results", "web", "files"},
    "exporting": {"exporting", "conversion", "results", "models", "core", "checkpoints", "files"},
    "report": {"report", "analysis", "results", "web", "files"},
    "cli": {
        *("analysis", "cli", "checkpoints", "conversion", "core", "demo", "evaluation", "exporting", "files", "launch"),
        *("models", "planning", "prediction", "report", "results"),
    },
    "": {"patches", "optim"},
}
# What these may import of the programs beside the package.
BESIDE = {"cli": {"data_prep", "benchmarks"}, "report": {"benchmarks"}}
# What these may need from elsewhere, beside the standard library.
NEEDS = {
    "core": {"torch"},
    "files": {"numpy", "pyarrow", "sentencepiece"},
    "prediction": {"numpy", "pyarrow"},
    "demo": set(),
    "web": set(),
}
# The same for data_prep, whose every part may import linformer_fairseq.files; a program may import every part, and
# `prepare_pretraining` puts other programs together.
DATA_PREP = ROOT / "data_prep"
DATA_PREP_MAY_IMPORT = {
    "support": {"support"},
    "stdlib": {"stdlib", "support"},
    "tokenizers": {"tokenizers", "support"},
    "sources": {"sources", "stdlib", "support"},
    "corpus": {"corpus", "sources", "support"},
    "binarizing": {"binarizing", "tokenizers", "support"},
    "tasks": {"tasks", "binarizing", "sources", "tokenizers", "support"},
}
OUTSIDE = {"data_prep", "scripts", "benchmarks", "tests", "configs"}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, wherever in the file."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            module = f"{base}.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def test_every_part_is_listed() -> None:
    assert {part_of(path) for path in files()} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    part = part_of(path)
    for name in imported(path):
        top, *rest = name.split(".")
        assert top not in OUTSIDE - BESIDE.get(part, set()), f"{part or '__init__'} must not import {name}"
        if top == "linformer_fairseq" and rest and (PACKAGE / rest[0]).is_dir():
            assert rest[0] in MAY_IMPORT[part], f"{part or '__init__'} must not import {name}"
        if part in NEEDS:
            assert top in {"linformer_fairseq", *NEEDS[part], *sys.stdlib_module_names}, f"{part} must not need {name}"


def test_every_part_of_data_prep_is_listed() -> None:
    assert {path.parent.name for path in DATA_PREP.glob("*/__init__.py")} == set(DATA_PREP_MAY_IMPORT)


@pytest.mark.parametrize("path", sorted(DATA_PREP.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_of_data_prep_go_one_way(path: Path) -> None:
    part = path.parent.name if path.parent != DATA_PREP else ""
    allowed = DATA_PREP_MAY_IMPORT.get(part, set(DATA_PREP_MAY_IMPORT))
    if path.name == "prepare_pretraining.py":
        allowed |= {"binarize", "build_corpus", "gpt2_bpe", "train_sentencepiece"}
    for name in imported(path):
        top, *rest = name.split(".")
        assert top not in {"scripts", "benchmarks", "tests"}, f"data_prep must not need {name}"
        if top == "linformer_fairseq":
            assert rest[:1] == ["files"], f"data_prep must not need {name}"
        if top == "data_prep" and rest:
            assert rest[0] in allowed, f"{part or path.name} must not import {name}"


@pytest.mark.parametrize("folder", [PACKAGE, DATA_PREP], ids=lambda folder: folder.name)
def test_no_two_files_import_each_other(folder: Path) -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in folder.rglob("*.py")
    }
    needs = {name: {m for m in imported(path) if m in modules and m != name} for name, path in modules.items()}
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    circles = [(a, b) for a in needs for b in needs[a] if a < b and a in needs[b] and not {a, b} & packages]
    assert circles == []


_LOADED = """
import contextlib, io, sys
HEAVY = {{"torch", "torch._dynamo", "fairseq", "hydra", "omegaconf", "matplotlib"}}
{program}
print(*sorted(HEAVY & sys.modules.keys()))
"""


def loaded_by(program: str) -> str:
    """Which of the heavy packages are there after a program."""
    words = [sys.executable, "-c", _LOADED.format(program=program)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_what_an_import_loads() -> None:
    """One after the other in one process: what loads nothing comes first."""
    light = ["linformer_fairseq", "linformer_fairseq.cli", "linformer_fairseq.results"]
    light += [f"linformer_fairseq.files.{path.stem}" for path in sorted((PACKAGE / "files").glob("[a-z]*.py"))]
    expected = {
        **dict.fromkeys(light, ""),
        "linformer_fairseq.core": "torch",
        "linformer_fairseq.checkpoints.folder": "omegaconf torch",
        "linformer_fairseq.checkpoints.released_folder": "omegaconf torch",
    }
    program = f"""
import importlib
for module in {list(expected)}:
    importlib.import_module(module)
    print(module, *sorted(HEAVY & sys.modules.keys()), end=",")
"""
    *found, _ = loaded_by(program).split(",")
    assert found == [f"{module} {heavy}".rstrip() for module, heavy in expected.items()]


def test_no_help_text_loads_torch_or_fairseq() -> None:
    program = """
from benchmarks import PROGRAMS
from linformer_fairseq import cli
from linformer_fairseq.cli.commands import COMMANDS
prepared = ("pretraining", "corpus", "vocabulary", "gpt2", "binarize", "task", "inspect")
programs = [*(["data", name] for name in prepared), *(["benchmark", name] for name in PROGRAMS)]
programs += [["analyse", name] for name in ("spectrum", "theory", "attention", "limits", "insertion", "report")]
for words in ([], *([name] for name in COMMANDS), *programs):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    assert "usage: linformer" in said.getvalue(), words
    assert "%%" not in said.getvalue(), words  # argparse does not format descriptions, other than help texts
"""
    assert loaded_by(program) == ""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["pass", "import linformer_fairseq.core", "import linformer_fairseq.models"])
@pytest.mark.usefixtures("fairseq")
def test_a_user_dir_is_registered_whatever_was_imported_before(before: str) -> None:
    """fairseq passes over the parts of a --user-dir that is imported already."""
    program = f"""
{before}
from argparse import Namespace
from fairseq import checkpoint_utils, models, optim, tasks, utils
utils.import_user_module(Namespace(user_dir={str(PACKAGE)!r}))
assert "linformer_roberta" in models.MODEL_REGISTRY and "fused_adamw" in optim.OPTIMIZER_REGISTRY
assert "bucketed_sentence_prediction" in tasks.TASK_REGISTRY
for patched in (checkpoint_utils.load_model_ensemble_and_task, checkpoint_utils.save_checkpoint):
    assert patched._linformer_patches
"""
    assert "fairseq" in loaded_by(program)


@pytest.mark.slow
@pytest.mark.usefixtures("fairseq")
def test_a_card_needs_no_transformers() -> None:
    program = """
import linformer_fairseq.cli.card
assert not {"transformers", "tokenizers"} & sys.modules.keys()
"""
    assert "fairseq" in loaded_by(program)


@pytest.mark.slow
def test_core_runs_without_fairseq() -> None:
    program = """
import importlib.abc, sys
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "omegaconf", "hydra"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
import importlib.util
hidden = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "fairseq" else hidden(name, *a)
import torch
from linformer_fairseq.core import LinformerSettings, build_attention_layers
layers, shared = build_attention_layers(LinformerSettings(16, 2, 2, 32, 8))
out, _ = layers[1](torch.randn(20, 3, 16))
out.sum().backward()
assert shared.weight.grad is not None and "fairseq" not in sys.modules
print("ran", tuple(out.shape))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "ran (20, 3, 16)", done.stderr
