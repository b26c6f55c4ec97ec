"""A signal to a script alone reaches what it started, and nothing more is started."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "scripts" / "lib" / "common.sh"

# Two runs at a time of a list of three: each takes a moment to end after a signal, as a run that saves a checkpoint.
_SCRIPT = """
set -euo pipefail
source "$1"
exec 9>lock
flock -n 9
interrupted() { echo "noted $1" && stop_command "$1" lock; }
stop_on_signals interrupted
stoppable xargs -d '\\n' -P 2 -I NAME python3 -c '
import pathlib, signal, sys, time
def stop(number, frame):
    time.sleep(0.5)
    pathlib.Path(sys.argv[1] + ".stopped").write_text(signal.Signals(number).name)
    sys.exit(85)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, stop)
pathlib.Path(sys.argv[1] + ".started").touch()
time.sleep(60)' NAME < <(printf '%s\\n' a b c)
echo "carried on"
"""


@pytest.mark.parametrize(
    ("number", "received", "said"),
    [
        (signal.SIGINT, "SIGINT", "Stopped by Ctrl-C."),
        (signal.SIGTERM, "SIGTERM", "Stopped by SIGTERM."),
        (signal.SIGQUIT, "SIGTERM", "Stopped by SIGQUIT."),
        (signal.SIGHUP, "SIGTERM", "Stopped by SIGHUP."),  # a run then saves a checkpoint
    ],
    ids=["INT", "TERM", "QUIT", "HUP"],
)
def test_a_signal_reaches_what_was_started(number: signal.Signals, received: str, said: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["bash", "-c", _SCRIPT, "-", LIBRARY],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # bash cannot trap a signal that its parent ignores, as nohup and a shell's background job do
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("*.started"))) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    output = process.communicate(timeout=30)[0]
    assert process.returncode == 128 + number, output
    assert output.startswith(f"noted {number.name[3:]}\n") and said in output and "carried on" not in output
    assert output.index("Stopping; ") < output.index(said), "it takes a moment"
    assert {path.name: path.read_text() for path in tmp_path.glob("*.stopped")} == {
        "a.stopped": received,
        "b.stopped": received,
    }
    assert not (tmp_path / "c.started").exists()
    with (tmp_path / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_signal_reaches_what_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "setsid").write_text(f'#!/bin/bash\ntouch begun\nsleep 0.5\nexec {shutil.which("setsid")} "$@"\n')
    (tmp_path / "setsid").chmod(0o755)
    script = """
    set -euo pipefail
    source "$1"
    PATH=".:$PATH" longest_stop=10
    exec 9>lock
    flock -n 9
    interrupted() { stop_command "$1" lock; }
    stop_on_signals interrupted
    stoppable sleep 20
    """
    output = _stopped(script, tmp_path, "begun")
    assert "Stopped by SIGTERM." in output and "warning: " not in output


def _stopped(script: str, folder: Path, begun: str) -> str:
    """What a script prints that gets SIGTERM when there is the file ``begun``."""
    command = ["bash", "-c", script, "-", LIBRARY]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not (folder / begun).exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM
    return output


@pytest.mark.slow
def test_what_does_not_stop_is_said(tmp_path: Path) -> None:
    script = """
    set -euo pipefail
    source "$1"
    longest_stop=1
    exec 9>lock
    flock -n 9
    interrupted() { stop_command "$1" lock; }
    stop_on_signals interrupted
    stoppable bash -c 'trap "" TERM; touch started; exec sleep 6 >/dev/null 2>&1'
    """
    output = _stopped(script, tmp_path, "started")
    assert (
        output.index("Stopping; ")
        < output.index("Stopped by SIGTERM.")
        < output.index("warning: something of it still runs")
    )


def test_the_status_and_input_of_a_command_are_its_own() -> None:
    script = 'set -euo pipefail; source "$1"; stoppable cat <<<text; stoppable bash -c "exit 7" || echo "status $?"'
    done = subprocess.run(["bash", "-c", script, "-", LIBRARY], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "text\nstatus 7\n", "")
