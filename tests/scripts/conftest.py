"""Made-up machines on which the scripts run: a copy of the scripts in a folder of its own, a PATH that holds only
what the test puts there, and interpreters that are stubs. Nothing real is installed and no network is used.
"""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOOLS = (
    *("awk", "bash", "cat", "chmod", "cut", "df", "dirname", "env", "find", "flock", "grep", "mkdir", "mv", "rm"),
    *("sha256sum", "sleep", "uname"),
)

STUB_PYTHON = """case "$*" in
*sys.version_info*) echo 3.12.4 ;;
*ensurepip*) ;;
*sysconfig*) echo {header} ;;
*_base_executable*) echo {base} ;;
*"-m venv"*) echo "venv" >>{log}; dir="${{@: -1}}"; rm -rf "$dir"; mkdir -p "$dir/bin"; cat "$0" >"$dir/bin/python"
    chmod +x "$dir/bin/python" ;;
*"-m pip"*) echo "pip" >>{log}; {pip} ;;
*"import torchaudio"*) {torchaudio} ;;
esac"""


class Machine:
    """A made-up machine with a checkout whose path has a space in it."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "a checkout"
        self.programs = folder / "bin"
        self.mark = folder / "went-past-the-checks"
        self.log = folder / "log"
        self.environment: dict[str, str] = {}
        self.checkout.mkdir()
        shutil.copytree(SCRIPTS, self.checkout / "scripts")
        for name in ("constraints.txt", "pyproject.toml"):
            (self.checkout / name).write_text("")
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(shutil.which(tool) or pytest.skip(f"this machine has no {tool}"))
        self.add("g++", "exit 0")

    def add(self, name: str, body: str) -> Path:
        """Put a shell script on the PATH."""
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)
        return path

    def add_python(self, name: str, version: str, has_venv: bool = True, include: str | None = None) -> Path:
        """An interpreter of which only the version, the venv module and the headers matter."""
        folder = self.programs.parent / f"include-{name}"
        folder.mkdir(exist_ok=True)
        (folder / "Python.h").write_text("")
        return self.add(
            name,
            f"""case "$*" in
            *sys.version_info*) echo {version} ;;
            *ensurepip*) exit {0 if has_venv else 1} ;;
            *sysconfig*) echo {shlex.quote(include or str(folder))}/Python.h ;;
            *) echo "$*" >>{shlex.quote(str(self.mark))}; exit 1 ;;
            esac""",
        )

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/setup.sh from another directory."""
        return subprocess.run(
            [shutil.which("bash") or "bash", str(self.checkout / "scripts" / "setup.sh"), *arguments],
            cwd=self.programs.parent,
            env={"PATH": str(self.programs), "HOME": str(self.programs.parent), **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def add_working_python(self, pip: str = "true", torchaudio: str = "true") -> None:
        """A python3 (3.12.4) whose venv and pip succeed without doing anything, unless `pip` says otherwise.

        `torchaudio` is what importing that does.

        `log` tells what was called; an environment made with it works in the same way.
        """
        self.add(
            "python3",
            STUB_PYTHON.format(
                header=shlex.quote(str(self.programs.parent / "include-python3" / "Python.h")),
                base=shlex.quote(str(self.programs / "python3")),
                log=shlex.quote(str(self.log)),
                pip=pip,
                torchaudio=torchaudio,
            ),
        )

    def calls(self) -> list[str]:
        """Which of venv and pip were called, in order, since this was last asked."""
        lines = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def refusal(self) -> str:
        """Run set-up, which must refuse before it has done anything; returns what it said."""
        done = self.setup()
        assert done.returncode == 1, done.stderr
        assert "error: set-up cannot start; nothing was downloaded." in done.stderr
        assert not self.mark.exists(), self.mark.read_text()
        assert not (self.checkout / ".venv").exists()
        return done.stderr


@pytest.fixture
def machine(tmp_path):
    """A machine that has everything."""
    machine = Machine(tmp_path)
    machine.add_python("python3", "3.12.4")
    return machine


@pytest.fixture
def working_machine(machine):
    """A machine on which set-up runs to its end, because venv and pip are stubs."""
    machine.add_working_python()
    return machine


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a space in its path, whose set-up does nothing and whose Python prints what it is told."""
    root = tmp_path / "a checkout"
    shutil.copytree(SCRIPTS, root / "scripts")
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/bash\nprintf "%s|" "$@"\nprintf "\\n"\n')
    (root / "scripts" / "setup.sh").write_text("#!/bin/bash\n")
    for path in (python, root / "scripts" / "setup.sh"):
        path.chmod(0o755)
    return root
