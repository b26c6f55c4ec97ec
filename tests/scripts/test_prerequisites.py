"""scripts/setup.sh on machines that lack something: it says what, and how to fix it, before any download."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.messages import says

LIB = Path(__file__).parents[2] / "scripts" / "lib"


def test_nothing_is_missing(machine):
    done = machine.setup("--check")
    assert done.returncode == 0, done.stderr
    assert "nothing is missing (Python 3.12.4)" in done.stderr
    assert not machine.mark.exists()


def test_checks_come_before_anything_else(machine):
    """The counterpart of `refusal`: where nothing is missing, set-up goes on to make the environment."""
    assert machine.setup().returncode != 0
    assert "-m venv --clear" in machine.mark.read_text()


@pytest.mark.parametrize("version", ["3.9.2", "3.10.12", "3.14.0", "2.7.18"])
def test_unsupported_python(machine, version):
    machine.add_python("python3", version)
    said = machine.refusal()
    assert f"Python 3.11, 3.12 or 3.13 is needed: python3 is {version}" in said
    assert "sudo apt-get install python3 python3-venv python3-dev" in said
    assert "PYTHON=/path/to/python3.12" in said


def test_other_interpreters_are_looked_for(machine):
    machine.add_python("python3", "3.9.2")
    machine.add_python("python3.13", "3.13.1")
    assert "Python 3.13.1" in machine.setup("--check").stderr


def test_the_interpreter_asked_for_is_not_replaced(machine):
    machine.environment["PYTHON"] = str(machine.add_python("old", "3.9.2"))
    assert "old is 3.9.2" in machine.refusal()


def test_the_interpreter_asked_for_is_taken(machine):
    machine.environment["PYTHON"] = str(machine.add_python("other", "3.11.9"))
    assert "Python 3.11.9" in machine.setup("--check").stderr


def test_no_interpreter_at_all(machine):
    machine.environment["PYTHON"] = "/no/such/python"
    assert "/no/such/python is not a CPython that starts" in machine.refusal()


def test_no_venv_module(machine):
    machine.add_python("python3", "3.13.1", has_venv=False)
    said = machine.refusal()
    assert "no working venv and ensurepip" in said
    assert "sudo apt-get install python3" in said and "-venv" in said


def test_no_headers(machine):
    machine.add_python("python3", "3.13.1", include="/no/such/folder")
    said = machine.refusal()
    assert "no /no/such/folder/Python.h" in said
    assert "sudo apt-get install python3" in said and "-dev" in said


def test_no_compiler(machine):
    (machine.programs / "g++").unlink()
    said = machine.refusal()
    assert "g++ is not on the PATH" in said
    assert "sudo apt-get install g++" in said


def test_a_compiler_with_arguments(machine):
    machine.environment["CXX"] = "g++ -std=c++17"
    assert machine.setup("--check").returncode == 0
    machine.environment["CXX"] = "absent -std=c++17"
    assert "absent -std=c++17 is not on the PATH" in machine.refusal()


def test_a_folder_for_temporary_files_that_is_not_there(machine):
    machine.environment["TMPDIR"] = "/no/such/folder"
    said = machine.refusal()
    assert "TMPDIR=/no/such/folder" in said and "disk" not in said


def test_not_linux(machine):
    machine.add("uname", "echo Darwin")
    assert "this is Darwin; only Linux is supported" in machine.refusal()


def test_too_little_disk(machine):
    machine.add("df", 'echo header; echo "/dev/x 99 99 2097152 99% /"')
    said = machine.refusal()
    assert says(said, machine.checkout, "2 GiB free", "4 GiB needed")
    assert "move the repository to a larger disk" in said


def test_everything_missing_is_said_at_once(machine):
    (machine.programs / "g++").unlink()
    machine.add_python("python3", "3.12.4", has_venv=False, include="/no/such/folder")
    said = machine.refusal()
    assert said.count("fix it with:") == 3


def test_wrong_usage(machine):
    done = machine.setup("--no-such-option")
    assert done.returncode == 1
    assert "unknown argument: --no-such-option" in done.stderr and "usage: scripts/setup.sh" in done.stderr
    assert "--check more: expected one argument at most" in machine.setup("--check", "more").stderr


def test_this_machine_passes_the_checks():
    """The real interpreter that runs the tests has what the checks look for, except perhaps disk."""
    code = (
        f"source {shlex.quote(str(LIB / 'common.sh'))}; source {shlex.quote(str(LIB / 'prerequisites.sh'))}; "
        "find_base_python; check_python; check_venv_module; stop_if_missing; echo $python_found"
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ".".join(map(str, sys.version_info[:3]))
