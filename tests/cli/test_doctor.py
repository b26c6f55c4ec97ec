"""`linformer doctor` in made-up environments.

The command runs in a Python without site-packages (-S) whose path holds a folder of small fake packages, so that
the real look-up of distributions and modules is tested and what is installed here plays no part.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from linformer_fairseq.cli import findings
from linformer_fairseq.cli.findings import State
from tests.conftest import REPOSITORY
from tests.messages import says
from tests.test_imports import OUTSIDE, files, imported

HEALTHY_TORCH = "class version: cuda = None\n"


class FakeEnvironment:
    """A folder that stands for site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, distribution: str, version: str, files: dict[str, str] | None = None) -> None:
        """Install a distribution: its metadata, and the given modules (path: source)."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        for name, source in (files or {}).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run code in an interpreter that sees the standard library, this folder and the repository only."""
        setup = f"import sys; sys.path[:0] = [{str(self.folder)!r}, {str(REPOSITORY)!r}]\n"
        environment = {**os.environ, "COLUMNS": "80"}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-S", "-B", "-c", setup + code]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)

    def doctor(self) -> tuple[int, dict[str, list[str]], str]:
        """Run `linformer doctor`: exit status, the rows by component, and all of the output."""
        done = self.python("from linformer_fairseq.cli import main; sys.exit(main(['doctor']))")
        assert "Traceback" not in done.stderr and "was imported" not in done.stderr, done.stderr
        cells = [re.split(" {2,}", line) for line in done.stdout.splitlines() if "  " in line]
        return done.returncode, {name: [*rest, ""][:3] for name, *rest in cells}, done.stdout


@pytest.fixture
def bare(tmp_path):
    """Nothing installed."""
    return FakeEnvironment(tmp_path)


def test_bare_environment(bare):
    status, rows, out = bare.doctor()
    assert status == 1
    for name in ("torch", "fairseq", "hydra-core", "omegaconf", "numpy"):
        assert rows[name][1] == "missing (required)", name
    assert rows["sentencepiece"][1] == "missing"
    assert "without it: no sentencepiece vocabulary" in rows["sentencepiece"][2]
    assert "linformer_fairseq.core" in rows["fairseq"][2]
    assert "Fix first: torch, fairseq, hydra-core, submitit, omegaconf, numpy." in out


@pytest.mark.parametrize(
    ("distribution", "version", "state"),
    [("torch", "2.5.1+cu121", "wrong (required)"), ("torch", "2.13.0", "ok"), ("torch", "2.6.0", "ok")],
)
def test_torch_version(bare, distribution, version, state):
    bare.add(distribution, version, {"torch/__init__.py": HEALTHY_TORCH})
    assert bare.doctor()[1]["torch"][:2] == [version, state]


@pytest.mark.parametrize(("version", "state"), [("4.57.1", "wrong"), ("5.0.0", "ok")])
def test_transformers_that_cannot_export(bare, version, state):
    bare.add("transformers", version, {"transformers/__init__.py": ""})
    row = bare.doctor()[1]["transformers"]
    assert row[:2] == [version, state] and (".[hf]" in row[2]) == (state == "wrong")


def test_torch_that_does_not_load(bare):
    bare.add("torch", "2.13.0", {"torch/__init__.py": "raise OSError('libcudart.so.13: cannot open')"})
    row = bare.doctor()[1]["torch"]
    assert row[1] == "wrong (required)"
    assert "OSError: libcudart.so.13: cannot open" in row[2]


@pytest.mark.parametrize(
    ("capability", "kernels", "state"),
    [
        ((7, 0), ["sm_75", "sm_80"], "wrong"),
        ((8, 9), ["sm_75", "sm_80"], "ok"),
        ((10, 3), ["sm_90", "sm_100"], "ok"),
        ((12, 0), ["sm_90", "compute_90"], "ok"),
    ],
)
def test_a_gpu_that_torch_has_no_code_for(bare, capability, kernels, state):
    fake = "class version: cuda = '13.0'\nfrom . import cuda\n"
    gpu = "def is_available(): return True\ndef device_count(): return 1\ndef get_device_name(i): return 'Tesla'\n"
    gpu += f"def get_device_capability(i): return {capability}\ndef get_arch_list(): return {kernels}\n"
    bare.add("torch", "2.13.0", {"torch/__init__.py": fake, "torch/cuda.py": gpu})
    row = bare.doctor()[1]["CUDA"]
    assert row[1] == state and "Tesla" in row[2] and ("sm_70" in row[2]) == (state == "wrong")


def test_every_package_that_a_command_can_lack_is_looked_for(bare):
    """`linformer` says of each that the doctor knows how to get it."""
    rows = bare.doctor()[1]
    every = {module for path in files() for module in imported(path)} | {"onnx", "onnxscript"}  # torch.onnx needs these
    names = {"google": "protobuf", "hydra": "hydra-core", "markdown_it": "markdown-it-py"}
    packages = {name.partition(".")[0] for name in every} - sys.stdlib_module_names - OUTSIDE
    brought = {
        "_typeshed",
        "fairseq_cli",
        "huggingface_hub",
        "linformer_fairseq",
        "rich",
        "yaml",
    }  # by others, which are looked for
    assert {names.get(name, name) for name in packages - brought} <= rows.keys()


@pytest.mark.parametrize(
    ("has", "state", "note"), [(False, State.MISSING, ""), (True, State.OK, ""), (None, State.OK, "not known")]
)
def test_bfloat16_on_the_processor(monkeypatch, has, state, note):
    monkeypatch.setattr(findings, "has_bfloat16", lambda: has)
    found = findings.bfloat16()
    assert found.state is state and note in found.note


def test_upstream_fairseq_is_wrong(bare):
    bare.add("fairseq", "0.12.2")
    status, rows, _ = bare.doctor()
    assert status == 1
    assert rows["fairseq"][:2] == ["0.12.2", "wrong (required)"]
    assert "fairseq-fixed is needed: pip uninstall fairseq && pip install" in rows["fairseq"][2]


def test_fairseq_that_does_not_import(bare):
    bare.add("fairseq-fixed", "0.12.3.1")
    status, rows, _ = bare.doctor()
    assert status == 1
    assert rows["fairseq"][:2] == ["0.12.3.1", "wrong (required)"]
    assert "does not import: ModuleNotFoundError" in rows["fairseq"][2]


def test_upstream_fairseq_that_fails_at_import(bare):
    """As it does on Python >= 3.11: the doctor must not die of what it is there to diagnose."""
    bare.add("fairseq", "0.12.2", {"fairseq/__init__.py": "raise ValueError('mutable default <class CommonConfig>')"})
    status, rows, _ = bare.doctor()
    assert status == 1
    assert rows["fairseq"][:2] == ["0.12.2", "wrong (required)"]


def test_upstream_beside_fairseq_fixed_is_wrong(bare):
    bare.add("fairseq-fixed", "0.12.3.1")
    bare.add("fairseq", "0.12.2")
    row = bare.doctor()[1]["fairseq"]
    assert row[1] == "wrong (required)"
    assert "pip uninstall fairseq fairseq-fixed" in row[2]


def test_components_that_only_need_to_load(bare):
    bare.add("hydra-core", "1.3.2", {"hydra/__init__.py": ""})
    bare.add("sentencepiece", "0.2.3", {"sentencepiece.py": ""})
    bare.add("tiktoken", "0.14.0", {"tiktoken/__init__.py": "raise ImportError('libx.so: cannot open')"})
    bare.add("numpy", "2.4.6")
    rows = bare.doctor()[1]
    assert rows["hydra-core"][:2] == ["1.3.2", "ok"]
    assert rows["sentencepiece"] == ["0.2.3", "ok", ""]
    version, state, remark = rows["tiktoken"]
    assert (version, state) == ("0.14.0", "wrong") and says(remark, "no data preparation", "ImportError", "libx.so")
    assert rows["numpy"][1] == "wrong (required)"


POISON = "raise SystemExit('apex was imported')"


def test_pypi_apex_is_warned_of_and_never_imported(bare):
    bare.add("apex", "0.9.10.dev0", {"apex/__init__.py": POISON, "apex/models.py": ""})
    _, rows, _ = bare.doctor()
    assert rows["apex"][:2] == ["0.9.10.dev0", "warning"]
    assert "not NVIDIA's apex" in rows["apex"][2] and "pip uninstall apex" in rows["apex"][2]


NVIDIA = {"apex/__init__.py": POISON, "apex/optimizers/__init__.py": "", "apex/normalization/__init__.py": ""}


def test_nvidia_apex_without_extensions_is_warned_of(bare):
    bare.add("apex", "0.1", NVIDIA)
    row = bare.doctor()[1]["apex"]
    assert row[1] == "warning" and "without its CUDA extensions" in row[2]


def test_nvidia_apex(bare):
    bare.add("apex", "0.1", {**NVIDIA, "amp_C.py": POISON})
    assert bare.doctor()[1]["apex"] == ["0.1", "ok", "NVIDIA's"]


def test_torchaudio_that_does_not_load_is_a_warning(bare):
    bare.add("torchaudio", "2.11.0", {"torchaudio/__init__.py": "raise OSError('Could not load this library')"})
    row = bare.doctor()[1]["torchaudio"]
    assert row[:2] == ["2.11.0", "warning"]
    assert "OSError: Could not load this library" in row[2]
    assert "transformers" in row[2] and row[2].endswith("pip uninstall --yes torchaudio")


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ((3, 10, 9), State.WRONG),
        ((3, 11, 0), State.OK),
        ((3, 13, 9), State.OK),
        ((3, 14, 0), State.WRONG),
    ],
)
def test_python_version(version, state):
    assert findings.python(version).state is state


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.13.0+cpu", (2, 13, 0)), ("2.6", (2, 6)), ("0.9.10.dev0", (0, 9, 10)), ("odd", ())],
)
def test_release_compares_as_numbers(text, numbers):
    assert findings.release(text) == numbers


@pytest.mark.usefixtures("fairseq")
def test_this_environment(capsys, monkeypatch):
    """The environment that runs the tests has everything required; on a terminal, rich prints the table."""
    from linformer_fairseq.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    for colour in ("", "1"):
        monkeypatch.setenv("FORCE_COLOR", colour)
        assert main(["doctor"]) == 0
        out = capsys.readouterr().out
        assert "fairseq-fixed" in out and "Everything that is required is here." in out
        assert ("\x1b[" in out) == bool(colour)
        assert colour or platform.platform() in out, "a word is broken"
