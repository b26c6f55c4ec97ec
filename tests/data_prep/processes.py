"""Programs of data_prep as processes: started in a group of their own, killed, and what they leave behind."""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from linformer_fairseq.files.json_records import read_object
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


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished step."""
    return read_object(folder / "manifest.json")


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
    """Until nothing of a process group is alive; fails after two minutes."""
    deadline = time.monotonic() + 120  # a worker first imports its program, then sees that its parent is dead
    while members := group_members(group):
        assert time.monotonic() < deadline, f"still alive: {members}"
        time.sleep(0.02)


def wait_for(condition: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Until the condition holds or the process has ended."""
    while not condition() and process.poll() is None:
        time.sleep(0.002)


def saved_state(out: Path) -> str:
    """Where a program that writes ``out`` has got to, as it keeps it to carry on."""
    try:
        return (out / ".unfinished" / "state.json").read_text()
    except OSError:
        return ""


def kill_at_random(
    begin: Callable[[int], "subprocess.Popen[str]"], out: Path, kills: int, seed: int, in_work: float, from_start: float
) -> None:
    """Kill a program so many times before it has finished ``out``, and look at what it leaves each time.

    Args:
        begin: starts it; gets the number of the try.
        out: its folder.
        kills: that are wanted.
        seed: of the moments.
        in_work: seconds at most after it has come further, in two tries of three.
        from_start: seconds at most after its start, in the others.
    """
    generator, hits, places, number = random.Random(seed), 0, set(), 0
    while hits < kills:
        assert number < 10 * kills, "it ends before it can be killed"
        process = begin(number)
        if number % 3:  # sometime in the work; otherwise also before it
            before = saved_state(out)
            wait_for(lambda before=before: saved_state(out) != before, process)
        time.sleep(generator.uniform(0, in_work if number % 3 else from_start))
        process.kill()
        process.communicate()
        wait_for_empty_group(process.pid)
        number += 1
        if (out / "manifest.json").exists():  # it was quicker: once more from the beginning
            shutil.rmtree(out)
            continue
        hits += 1
        places.add(saved_state(out))
        assert {path.name for path in out.glob("*")} <= {".unfinished"}
    assert len(places) >= min(3, kills // 2 + 1)  # it was killed in the midst of the work, and had come further
