"""The wheel, installed into an environment of its own and used from another folder."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.benchmarks.conftest import TINY
from tests.data_prep.documents import make_documents, write

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fairseq")]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, and what this one has besides the project."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    found = folder / "venv/bin/python"
    subprocess.run([*pip, "--python", str(found), "install", "--quiet", "--no-deps", str(wheel)], check=True)
    # A folder that a .pth file adds is searched last, and its own .pth files, the editable project, are not read.
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def run(python: Path, folder: Path, *words: str) -> str:
    done = subprocess.run([python.parent / words[0], *words[1:]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_of_the_wheel_is_from_the_wheel(python: Path, tmp_path: Path) -> None:
    names = "linformer_fairseq, data_prep, benchmarks"
    program = f"import {names}; print(*(m.__file__ for m in ({names})), sep='\\n')"
    files = run(python, tmp_path, "python", "-c", program).split()
    assert len(files) == 3 and all(Path(file).is_relative_to(python.parents[1]) for file in files)


def test_nothing_of_the_repository_alone_is_in_it(python: Path) -> None:
    (wheel,) = python.parents[2].glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"linformer_fairseq", "data_prep", "benchmarks"}


def test_all_configs_are_in_it(python: Path) -> None:
    (wheel,) = python.parents[2].glob("*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("linformer_fairseq/configs/")}
    assert found == {f"linformer_fairseq/{path.relative_to(ROOT)}" for path in ROOT.glob("configs/**/*.yaml")}


def test_the_model_comes_with_it(python: Path, tmp_path: Path) -> None:
    program = "from linformer_fairseq.checkpoints.released_folder import find_weights; print(find_weights({!r}))"
    weights = Path(run(python, tmp_path, "python", "-c", program.format("linformer-small")).strip())
    assert weights.is_relative_to(python.parents[1]) and (weights.parent / "dict.txt").is_file()


def test_the_page_of_the_demo_comes_with_it(python: Path, tmp_path: Path) -> None:
    program = "from linformer_fairseq.demo.server import Server; print(*Server('127.0.0.1', 0).files)"
    names = ["base.css", "style.css", "script.js", "heat_map.js"]
    assert run(python, tmp_path, "python", "-c", program).split() == ["/", *(f"/{name}" for name in names)]


def test_from_text_to_a_dry_run(python: Path, tmp_path: Path) -> None:
    write(tmp_path / "book.txt", make_documents(300))
    run(python, tmp_path, "linformer", "data", "pretraining", "--out", ".", "--vocab-size", "420", "book.txt")
    assert "every .idx fits its .bin" in run(python, tmp_path, "linformer", "data", "inspect", "bin")
    words = (
        "pretrain",
        "--dry-run",
        "experiment=linformer_base_n512_k128_layerwise",
        "task.data=bin",
        "run_config=cpu",
    )
    assert "projected_dim: 128" in run(python, tmp_path, "linformer", *words)


def test_benchmarks(python: Path, tmp_path: Path) -> None:
    words = ("--projected-dims", "4", "--rounds", "1", "--models", "linformer_core", "--out", "a.json", *TINY)
    words += ("--tokens", "32", "--lengths", "16")
    run(python, tmp_path, "linformer", "benchmark", "inference", *words)
    made = json.loads((tmp_path / "a.json").read_text())["provenance"]
    assert made["command"].startswith("linformer benchmark inference --projected-dims 4 ")
    run(python, tmp_path, "linformer", "benchmark", "report", "--results", ".", "--out", ".")


PARSE = """
from fairseq.options import get_training_parser, parse_args_and_arch
print(parse_args_and_arch(get_training_parser()).projected_dim)
"""


def test_fairseq_finds_the_plugin(python: Path, tmp_path: Path) -> None:
    folder = run(python, tmp_path, "linformer", "user-dir").strip()
    assert Path(folder).is_relative_to(python.parents[1])
    words = ("data", "--user-dir", folder, "--task", "masked_lm", "--arch", "linformer_roberta_base")
    assert run(python, tmp_path, "python", "-c", PARSE, *words, "--projected-dim", "77").split()[-1] == "77"
