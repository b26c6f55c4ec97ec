"""When scripts/setup.sh makes the environment, reuses it, or starts afresh."""

import shlex
import shutil
import subprocess
import time

import pytest


def test_second_call_does_nothing(working_machine):
    assert working_machine.setup().returncode == 0
    assert working_machine.calls()[0] == "venv"
    (working_machine.programs / "g++").unlink()  # a finished environment needs no compiler
    done = working_machine.setup()
    assert (done.returncode, done.stderr, working_machine.calls()) == (0, "", [])


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_changed_requirements_are_installed_without_starting_afresh(working_machine, name):
    assert working_machine.setup().returncode == 0
    working_machine.calls()
    (working_machine.checkout / name).write_text("# changed\n")
    assert working_machine.setup().returncode == 0
    assert set(working_machine.calls()) == {"pip"}


def test_interrupted_set_up_starts_afresh(working_machine):
    working_machine.add_working_python(pip="exit 3")
    done = working_machine.setup()
    assert done.returncode == 3
    assert "set-up did not finish. Run it again" in done.stderr
    working_machine.add_working_python()
    working_machine.calls()
    assert working_machine.setup().returncode == 0
    assert working_machine.calls()[0] == "venv"


def test_moved_repository_starts_afresh(working_machine):
    assert working_machine.setup().returncode == 0
    working_machine.calls()
    moved = working_machine.checkout.with_name("moved here")
    working_machine.checkout.rename(moved)
    working_machine.checkout = moved
    assert working_machine.setup().returncode == 0
    assert working_machine.calls()[0] == "venv"


def test_a_linked_environment_is_not_emptied(working_machine, tmp_path):
    another = tmp_path / "another"
    another.mkdir()
    (another / "file").touch()
    (working_machine.checkout / ".venv").symlink_to(another)
    done = working_machine.setup()
    assert done.returncode == 1 and ".venv is a link" in done.stderr and "venv" not in working_machine.calls()
    assert (another / "file").exists()


def test_two_set_ups_at_once(working_machine, tmp_path):
    """The second waits for the first and then has nothing to do."""
    both_there = tmp_path / "both are there"
    working_machine.add_working_python(pip=f"until [[ -e {shlex.quote(str(both_there))} ]]; do sleep 0.02; done")
    command = [shutil.which("bash"), str(working_machine.checkout / "scripts" / "setup.sh")]
    environment = {"PATH": str(working_machine.programs)}
    said, end = tmp_path / "said", time.monotonic() + 60
    with said.open("w") as stream:
        both = [subprocess.Popen(command, env=environment, stderr=stream) for _ in range(2)]
    try:
        while "another set-up is running here" not in said.read_text():
            assert time.monotonic() < end, said.read_text()
            time.sleep(0.02)
    finally:
        both_there.touch()
    assert [process.wait(60) for process in both] == [0, 0]
    assert said.read_text().count("another set-up is running here") == 1
    assert working_machine.calls().count("venv") == 1


CUDA_REPORT = """echo '{"install": [{"metadata": {"name": "nvidia-cublas"}}]}'"""


@pytest.mark.parametrize(("report", "status"), [(CUDA_REPORT, 1), ("""echo '{"install": []}'""", 0)])
def test_disk_that_is_enough_for_the_cpu_build_only(working_machine, report, status):
    working_machine.add_working_python(pip=report)
    working_machine.add("df", f'echo header; echo "/dev/x 99 99 {6 * 1048576} 99% /"')
    done = working_machine.setup()
    assert done.returncode == status, done.stderr
    assert ("with the CUDA build of torch" in done.stderr) == bool(status)
    if status:
        assert working_machine.calls() == ["venv", "pip"]  # pip was asked, and nothing was installed


# In place of pip: a list of what it is told, and what `pip check` says.
PIP = """echo "$*" >>"${{0%/*}}/pip-calls"; case "$*" in *check) printf '{complaints}'; exit {status} ;; esac"""
NO_TORCHAUDIO = "fairseq-fixed 0.12.3.1 requires torchaudio, which is not installed.\\n"


def uninstalled(machine) -> bool:
    """Whether pip was told to take torchaudio out."""
    calls = (machine.checkout / ".venv" / "bin" / "pip-calls").read_text()
    return "uninstall --yes --quiet torchaudio" in calls


@pytest.mark.parametrize(("torchaudio", "broken"), [("exit 0", False), ("exit 1", True)])
def test_a_torchaudio_that_does_not_load_is_taken_out(working_machine, torchaudio, broken):
    pip = PIP.format(complaints=NO_TORCHAUDIO if broken else "", status=int(broken))
    working_machine.add_working_python(pip, torchaudio)
    done = working_machine.setup()
    assert done.returncode == 0, done.stderr
    assert uninstalled(working_machine) == broken == ("taking out torchaudio" in done.stderr)
    assert (working_machine.checkout / ".venv" / "linformer-setup-complete").exists()


@pytest.mark.parametrize("complaints", ["{other}", NO_TORCHAUDIO + "{other}"])
def test_every_other_complaint_of_pip_check_ends_the_set_up(working_machine, complaints):
    other = "datasets 5.2.0 requires pandas, which is not installed."
    working_machine.add_working_python(
        PIP.format(complaints=complaints.format(other=other + "\\n"), status=1), "exit 1"
    )
    done = working_machine.setup()
    assert done.returncode == 1 and other in done.stderr.splitlines()
    assert "fairseq-fixed" not in done.stderr
    assert not (working_machine.checkout / ".venv" / "linformer-setup-complete").exists()
