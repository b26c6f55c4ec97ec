"""As a user starts them: with torch alone, and as `linformer benchmark`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from linformer_fairseq.cli import benchmark, main
from tests.benchmarks.conftest import TINY

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import importlib.abc, importlib.util, sys
HIDDEN = {"fairseq", "omegaconf", "hydra", "rich", "numpy", "matplotlib", "transformers", "linformer"}
HIDDEN |= {"linformer_pytorch"}
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name.split(".")[0] in HIDDEN else found(name, *a)
from benchmarks.efficiency import rate
from benchmarks.__main__ import main
rate.calls = lambda *a: {"a shape": lambda: 1e10}
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_torch_is_enough(tmp_path):
    out = tmp_path / "a.json"
    words = ["inference", "--lengths", "16", "--projected-dims", "4", "--rounds", "1", "--tokens", "32", *TINY]
    words += ["--preset", "table3", "--out", str(out)]
    done = subprocess.run([sys.executable, "-c", WITHOUT, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    statuses = {cell["model"]: cell["status"] for cell in json.loads(out.read_text())["cells"]}
    missing, core = ("linformer", "roberta_hf", "roberta_fairseq"), ("roberta_sdpa_core", "roberta_sdpa_core_blocks")
    assert statuses == dict.fromkeys(missing, "not_installed") | dict.fromkeys((*core, "roberta_materialised"), "ok")


def test_a_folder_is_no_file_for_results(tmp_path, refused):
    assert "is a folder; --out names a file" in refused("inference", "--out", str(tmp_path))


@pytest.mark.slow
def test_the_command_runs_the_program(tmp_path):
    words = ["benchmark", "report", "--results", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "linformer_fairseq.cli", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: {tmp_path} has no JSON files")


def test_options_go_to_the_program(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark, "main", lambda words, prog: seen.append((words, prog)) or 3)
    assert main(["benchmark", "inference", "--lengths", "64", "128", "--help"]) == 3
    assert seen == [(["inference", "--lengths", "64", "128", "--help"], "linformer benchmark")]
