"""The tests' own SLURM stops whatever happens to those who started it, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.slurm.cluster import clean_environment, lacking

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lacking()), reason=f"missing: {', '.join(lacking())}")]


def _processes(folder: Path) -> dict[int, str]:
    """Command lines of what lives with this SLURM, by process id: its daemons and all that runs in its jobs."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if any(str(folder).encode() in word for word in words) and words[0]:
            found[int(entry.name)] = words[0].decode(errors="replace")
    return found


@pytest.mark.parametrize("way", ["its starter is killed", "its daemons are dead"])
def test_nothing_is_left(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.slurm.cluster", "--nodes=1"]
    if way == "its starter is killed":  # which holds the other end of the pipe, and has no time to close it
        program = f"import subprocess; subprocess.Popen({command!r}, stdin=subprocess.PIPE).wait()"
        command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        conf = Path(process.stdout.readline().strip())
        environment = clean_environment(conf)
        # a process that ignores the polite signals, and has left its job's session
        stubborn = "trap '' TERM; setsid sleep 1000 & sleep 1000"
        sbatch = ["sbatch", "--gpus-per-node=0", "--output=/dev/null", f"--wrap={stubborn}"]
        subprocess.run(sbatch, env=environment, cwd=tmp_path, check=True, capture_output=True)
        deadline = time.monotonic() + 300
        while len([words for words in _processes(conf.parent).values() if words.startswith("sleep")]) < 2:
            assert time.monotonic() < deadline, _processes(conf.parent)
            time.sleep(0.1)
        if way == "its daemons are dead":
            for pid, words in _processes(conf.parent).items():
                if words.startswith(("slurmctld", "slurmd\0")):
                    os.kill(pid, signal.SIGKILL)
            process.stdin.close()
        else:
            process.kill()
        while _processes(conf.parent) or conf.parent.exists():
            assert time.monotonic() < deadline, _processes(conf.parent)
            time.sleep(0.1)
