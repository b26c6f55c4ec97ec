"""The frame of the programs: what ends them, and with which exit status."""

import subprocess
import sys

import pytest

PRINTS = """
import sys
from data_prep.support.program import run_program
sys.stdin.read()
run_program(lambda: print("x" * {size}))
"""


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_reader_that_goes_away_is_no_error(size: int) -> None:
    command = [sys.executable, "-c", PRINTS.format(size=size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin is not None and program.stdout is not None and program.stderr is not None
        program.stdout.close()
        program.stdin.close()
        assert (program.stderr.read(), program.wait()) == (b"", 141)


def test_a_closed_output_is_no_error() -> None:
    command = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, PRINTS.format(size=10)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=True, capture_output=True).stderr == b""
