"""scripts/reproduce_tools/runs.py: several runs at a time, what it says of them, and how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.reproduce_tools import runs

# What stands for `linformer`: it says what it was told, and does what its first argument is.
_STAND_IN = """
import signal, sys, time
from pathlib import Path
from scripts.reproduce_tools import runs

def main(words):
    print("told", *sys.argv[1:], flush=True)
    print("to stderr", file=sys.stderr)
    if words[0] == "waits":
        try:  # the signal may come as soon as the file is there
            Path(words[1] + ".waits").touch()
            time.sleep(60)
        except KeyboardInterrupt:
            time.sleep(0.5)
            Path(words[1] + ".stopped").touch()
            return 130
    if words[0] == "until":
        Path(words[1] + ".waits").touch()
        while not Path("go").exists():
            time.sleep(0.02)
        return 0
    if words[0] == "raises":
        raise RuntimeError("a bug")
    if words[0] == "exits":
        sys.exit(85)
    return int(words[0])

runs.cli.main = main
runs.IMPORTED = ()
sys.exit(runs.main(["--jobs", "2"]))
"""

# A signal comes before there is a run that it could reach.
_SIGNAL_BEFORE_A_FORK = """
import os, signal
fork = os.fork

def fork_after_a_signal():
    os.kill(os.getpid(), signal.SIGTERM)
    return fork()

os.fork = fork_after_a_signal
"""


@pytest.fixture
def started(tmp_path: Path) -> subprocess.Popen[str]:
    """The program in a process group of its own, as the scripts start it, in an empty folder."""
    return _start(_STAND_IN, tmp_path)


def _start(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(runs.__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_what_fails_is_said_and_the_others_run(started: subprocess.Popen[str], tmp_path: Path) -> None:
    lines = [
        "good 0 run_config=cpu a=b",
        "bad 1 run_config=cpu",
        "bug raises run_config=cpu",
        "end exits run_config=cpu",
    ]
    out, err = started.communicate("".join(f"{line}\n" for line in [*lines, "last 0 run_config=cpu"]), timeout=60)
    assert started.returncode == 1 and out == ""
    for name in ("good", "last"):
        assert f"==> {name}: finished after " in err
    assert "error: bad failed; the end of logs/bad.log:\ntold 1 run_config=cpu\nto stderr\n" in err
    assert "error: bug failed" in err and "RuntimeError: a bug\n" in err
    assert "error: end failed" in err and err.count("error: ") == 3
    assert (tmp_path / "logs/good.log").read_text() == "told 0 run_config=cpu a=b\nto stderr\n"


def test_a_run_without_a_log_does_not_end_the_others(started: subprocess.Popen[str], tmp_path: Path) -> None:
    """As on a full disk; here, the folder of a log is missing, or a folder is in its place."""
    (tmp_path / "logs" / "c.log").mkdir(parents=True)
    lines = [f"{name} 0 run_config=cpu\n" for name in ("no/log", "a", "b", "c")]
    _, err = started.communicate("".join(lines), timeout=60)
    assert started.returncode == 1 and err.count("finished after") == 2
    assert "error: no/log failed: [Errno 2] No such file or directory: 'logs/no/log.log'\n" in err
    assert "error: c failed: [Errno 21] Is a directory: 'logs/c.log'\n" in err


def test_all_finished(started: subprocess.Popen[str]) -> None:
    _, err = started.communicate("a 0 run_config=cpu\n\nb 0 run_config=cpu\n", timeout=60)
    assert started.returncode == 0 and err.count("finished after") == 2


def test_a_signal_is_for_the_runs_and_nothing_more_is_started(started: subprocess.Popen[str], tmp_path: Path) -> None:
    _wait_for_two_of_three(started, tmp_path)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=30)
    assert started.returncode == 1 and err == ""
    assert sorted(path.name for path in tmp_path.glob("*.stopped")) == ["a.stopped", "b.stopped"]
    assert not (tmp_path / "c.waits").exists()


def _wait_for_two_of_three(process: subprocess.Popen[str], folder: Path, first: str = "waits") -> None:
    assert process.stdin is not None
    runs = {"a": first, "b": "waits", "c": "waits"}
    process.stdin.write("".join(f"{name} {what} {name} run_config=cpu\n" for name, what in runs.items()))
    process.stdin.close()
    process.stdin = None
    _wait_for(2, process, folder)


def _wait_for(count: int, process: subprocess.Popen[str], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*.waits"))) < count:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)


def test_under_nohup_they_go_on_when_the_terminal_is_closed(tmp_path: Path) -> None:
    process = _start(f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{_STAND_IN}", tmp_path)
    _wait_for_two_of_three(process, tmp_path, first="until")
    os.killpg(process.pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    _wait_for(3, process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and err.count("\n") == 1 and "==> a: finished after " in err
    assert sorted(path.name for path in tmp_path.glob("*.stopped")) == ["b.stopped", "c.stopped"]


def test_a_signal_while_a_run_is_started_is_for_it_too(tmp_path: Path) -> None:
    process = _start(_SIGNAL_BEFORE_A_FORK + _STAND_IN, tmp_path)
    _, err = process.communicate("".join(f"{name} waits {name} run_config=cpu\n" for name in "ab"), timeout=30)
    assert process.returncode == 1 and err == ""
    assert [path.name for path in (tmp_path / "logs").iterdir()] in ([], ["a.log"]), "b was started"


def test_a_run_for_gpus_starts_python_anew(started: subprocess.Popen[str], tmp_path: Path) -> None:
    _, err = started.communicate("real user-dir\n", timeout=60)
    assert started.returncode == 0, err
    assert (tmp_path / "logs/real.log").read_text() == f"{Path(runs.__file__).parents[2] / 'linformer_fairseq'}\n"
