""".ci/run installs SLURM and a browser where it may, says so where it cannot, and runs the tests in any case."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

BOTH = ["update", "slurm-wlm munge", "update", "chromium"]


@pytest.mark.parametrize(
    ("programs", "ran", "said"),
    [
        ({}, [], "there is no apt-get here"),
        ({"apt-get": "exit 0", "id": "echo 1000"}, [], "this is neither root nor someone with sudo"),
        ({"apt-get": "exit 100", "id": "echo 0"}, BOTH, "apt-get could not install them"),
        ({"apt-get": "exit 0", "id": "echo 0"}, BOTH, None),
        (
            {"apt-get": "exit 0", "id": "echo 1000", "sudo": 'shift; exec "$@"'},
            BOTH,
            None,
        ),
        ({"munged": "", "slurmctld": "", "slurmd": "", "chromium": "", "apt-get": "exit 0"}, [], None),
        (
            {"munged": "", "slurmctld": "", "slurmd": "", "apt-get": "exit 0", "id": "echo 0"},
            ["update", "chromium"],
            None,
        ),
    ],
    ids=["no apt-get", "no root", "it fails", "root", "sudo", "there already", "one is there"],
)
def test_packages_are_installed_where_they_can_be(
    tmp_path: Path, programs: dict[str, str], ran: list[str], said: str | None
) -> None:
    (tmp_path / ".ci").mkdir()
    # without /usr/sbin: on this machine SLURM may be there
    program = (REPOSITORY / ".ci" / "run").read_text().replace(":/usr/sbin", "")
    (tmp_path / ".ci" / "run").write_text(program)
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname", "env", "timeout", "true"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    stubs = {f"bin/{name}": f'echo "{name} $*" >>{tmp_path}/log\n{body}' for name, body in programs.items()}
    for name, body in {**stubs, "scripts/test.sh": f'echo "tested $*" >>{tmp_path}/log; exit 3'}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)
    done = subprocess.run(
        [str(tmp_path / "bin" / "bash"), str(tmp_path / ".ci" / "run"), "--fast"],
        env={"PATH": str(tmp_path / "bin"), "LINFORMER_DATA": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-1] == "tested --fast" and done.returncode == 3, "the tests' status is that of the whole"
    calls = [line for line in lines if line.startswith("apt-get")]
    assert len(calls) == len(ran) and all(line.endswith(end) for line, end in zip(calls, ran, strict=True))
    assert done.stderr.count("SKIPPED") == (0 if said is None else 2) and (said or "") in done.stderr
