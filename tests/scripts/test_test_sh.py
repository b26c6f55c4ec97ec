"""scripts/test.sh and .ci/run: what they run, and the exit status they end with."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("ruff", "mypy", "shellcheck", "python")
INSTALLED = ("munged", "slurmctld", "slurmd", "chromium")
"""What .ci/run would install; must not happen here."""


class Checkout:
    """A checkout whose environment holds stubs, each of which notes its arguments and ends with a given status."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.log = folder / "log"
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        shutil.copytree(REPOSITORY / ".ci", self.root / ".ci")
        (self.root / ".venv" / "bin").mkdir(parents=True)
        self.put(self.root / "scripts" / "setup.sh", "exit 0")
        for name in PROGRAMS:
            self.stub(name, 0)
        self.system = folder / "system"
        self.system.mkdir()
        for name in INSTALLED:
            self.put(self.system / name, "exit 0")

    @staticmethod
    def put(path: Path, body: str) -> None:
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def stub(self, name: str, status: int) -> None:
        note = f'printf "%s|" {name} "$@" >>"{self.log}"; echo "data=${{LINFORMER_DATA:-}}" >>"{self.log}"'
        self.put(self.root / ".venv" / "bin" / name, f"{note}\nexit {status}")

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / script), *arguments],
            cwd=self.root.parent,
            env={"PATH": f"{self.system}:/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def pytest_call(self) -> str:
        (line,) = [line for line in self.log.read_text().splitlines() if line.startswith("python|")]
        return line


@pytest.fixture
def checkout(tmp_path):
    """A checkout in which every check succeeds."""
    return Checkout(tmp_path)


def test_all_checks_run(checkout):
    done = checkout.run("scripts/test.sh")
    assert done.returncode == 0, done.stderr
    called = [line.split("|")[:2] for line in checkout.log.read_text().splitlines()]
    assert [name for name, _ in called] == ["ruff", "ruff", "mypy", "shellcheck", "python"]
    assert checkout.pytest_call().startswith("python|-m|pytest|--numprocesses|")


def test_shellcheck_is_given_every_script(checkout):
    checkout.run("scripts/test.sh")
    (line,) = [line for line in checkout.log.read_text().splitlines() if line.startswith("shellcheck|")]
    given = set(line.split("|"))
    expected = {str(path.relative_to(checkout.root)) for path in (checkout.root / "scripts").rglob("*.sh")}
    assert expected | {".ci/run"} <= given


def test_fast_leaves_out_slow_tests_and_arguments_are_passed_on(checkout):
    checkout.run("scripts/test.sh", "--fast", "--", "-k", "two words")
    assert "|-m|not slow|-k|two words|" in checkout.pytest_call()


@pytest.mark.parametrize(("program", "status"), [("ruff", 1), ("mypy", 2), ("shellcheck", 4), ("python", 5)])
def test_one_failure_is_the_exit_status_and_the_rest_still_runs(checkout, program, status):
    checkout.stub(program, status)
    done = checkout.run("scripts/test.sh")
    assert done.returncode == status
    assert f"(exit status {status})" in done.stderr
    assert checkout.pytest_call()


def test_failing_set_up_ends_it(checkout):
    checkout.put(checkout.root / "scripts" / "setup.sh", "exit 9")
    assert checkout.run("scripts/test.sh").returncode == 9
    assert not checkout.log.exists()


def test_unknown_argument(checkout):
    done = checkout.run("scripts/test.sh", "--quick")
    assert done.returncode == 1
    assert "unknown argument: --quick" in done.stderr
    assert not checkout.log.exists()


def test_ci_names_the_real_data_beside_the_checkout(checkout):
    data = checkout.root.parent / "shared" / "data"
    data.mkdir(parents=True)
    assert checkout.run(".ci/run").returncode == 0
    call = checkout.pytest_call()
    assert call.endswith(f"data={data}")
    assert "not slow" not in call


def test_ci_without_real_data(checkout):
    checkout.stub("python", 3)
    assert checkout.run(".ci/run").returncode == 3
    assert checkout.pytest_call().endswith("data=")
