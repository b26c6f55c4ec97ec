"""Programs of data_prep as processes: started in a group of their own, killed, and what they leave behind."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY


def start(program: str, *words: object, **more: Any) -> "subprocess.Popen[str]":
    """``python -m data_prep.PROGRAM``, in a process group of its own, as a terminal starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", f"data_prep.{program}", *map(str, words)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **more,
    )


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The content of every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def group_members(group: int) -> list[str]:
    """Command lines of the living processes of a process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append((entry / "cmdline").read_text())
        except (OSError, IndexError):
            continue
    return found


def wait_for_empty_group(group: int) -> None:
    """Until nothing of a process group is alive; fails after ten seconds."""
    deadline = time.monotonic() + 10
    while members := group_members(group):
        assert time.monotonic() < deadline, f"still alive: {members}"
        time.sleep(0.02)


def wait_for(condition: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Until the condition holds or the process has ended."""
    while not condition() and process.poll() is None:
        time.sleep(0.002)
