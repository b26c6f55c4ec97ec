"""Running a command and measuring its time and memory; the provenance of results."""

import contextlib
import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq.files.provenance import date, git, machine, versions

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "efficiency"
_INTERVAL = 0.1
"""Seconds between two readings of the memory; a reading takes about a millisecond per process."""


def real_data() -> Path | None:
    """The folder that ``LINFORMER_DATA`` names, if it is set."""
    given = os.environ.get("LINFORMER_DATA")
    return Path(given).resolve() if given else None


@dataclass(frozen=True)
class Measured:
    """Time and memory of a command."""

    seconds: float
    cpu_seconds: float
    """CPU time of all its processes, which depends little on other load on the machine."""
    peak_bytes: int
    """Peak of the total memory of the process and its descendants; shared pages count once (PSS)."""


def run(command: Sequence[object]) -> Measured:
    """Run a command from the repository's root and measure it.

    Raises:
        SystemExit: the command failed; the message has the end of its output.
    """
    import psutil  # not at the top: the benchmarks of models do not need it

    def memory(process: psutil.Process) -> int:
        found = 0
        with contextlib.suppress(psutil.NoSuchProcess):  # the process has ended
            found = process.memory_full_info().pss
        return found

    words = [str(word) for word in command]
    started, cpu = time.monotonic(), _cpu_of_children()
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        stop, peak, root = threading.Event(), [0], psutil.Process(process.pid)

        def watch() -> None:
            with contextlib.suppress(psutil.NoSuchProcess):
                while not stop.wait(_INTERVAL):
                    peak[0] = max(peak[0], sum(map(memory, [root, *root.children(recursive=True)])))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output = process.communicate()[0]
        seconds = time.monotonic() - started
        stop.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}\nended with {process.returncode}:\n{output[-3000:]}")
    return Measured(seconds, _cpu_of_children() - cpu, peak[0])


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def provenance(command: str, packages: Sequence[str]) -> dict[str, Any]:
    """Command, commit, date, hardware and versions of a measurement."""
    found = versions(packages)
    return {
        "command": command,
        "commit": git(ROOT, "rev-parse", "HEAD") or "",
        # Changed results and untracked files do not affect a measurement.
        "uncommitted_changes": bool(git(ROOT, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")),
        "date": date(),
        "hardware": machine(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": found.pop("python"),
        "versions": found,
    }


def said(made: dict[str, Any]) -> str:
    """The output of :func:`provenance` as a line of Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return (
        f"`{made['command']}`, {made['date']}, commit {made['commit'][:10]}"
        f"{' with uncommitted changes' if made['uncommitted_changes'] else ''}; {made['hardware']}, load "
        f"{made['load_before']} before; Python {made['python']}, {versions}"
    )
