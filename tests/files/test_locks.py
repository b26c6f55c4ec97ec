"""One process at a time, and whoever is killed holds nothing."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.locks import Lock
from tests.conftest import REPOSITORY

HOLDER = """
import sys, time
from pathlib import Path
from linformer_fairseq.files.locks import Lock
lock = Lock(Path(sys.argv[1]), sign=len(sys.argv) > 2)
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["", ".lock"], ids=["folder", "file"])
def test_a_killed_process_holds_nothing(tmp_path: Path, name: str) -> None:
    words = [sys.executable, "-c", HOLDER, str(tmp_path / name), *(["sign"] if name else [])]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        holder = f"process {process.pid} on {os.uname().nodename}"
        expected = f"^{tmp_path}: another process is writing to this folder{f' .{holder}.' if name else ''};"
        with pytest.raises(UserError, match=expected):
            Lock(tmp_path / name, sign=bool(name))
        process.send_signal(signal.SIGKILL)
    with Lock(tmp_path / name):
        pass


def test_it_is_let_go_of_at_the_end_of_the_block(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Lock(tmp_path):
        with pytest.raises(UserError):
            Lock(tmp_path)
        raise ZeroDivisionError
    with Lock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_who_waited_holds_the_file_that_took_the_place_of_the_one_it_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    first = Lock(path, wait=True)
    taken: list[Lock] = []
    waiting = threading.Thread(target=lambda: taken.append(Lock(path, wait=True)))
    waiting.start()
    waiting.join(0.2)
    assert not taken
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(path)
    first.release()
    waiting.join(60)
    with pytest.raises(UserError):  # it is the new file that is held
        Lock(path)
    taken[0].release()
    assert path.read_text() == "new"


def test_one_that_nobody_refers_to_any_more_is_let_go_of(tmp_path: Path) -> None:
    Lock(tmp_path)
    with Lock(tmp_path):
        pass


def test_a_process_that_inherited_the_file_does_not_hold_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path / ".lock")
    (descriptor,) = [int(one.name) for one in Path("/proc/self/fd").iterdir() if one.resolve() == tmp_path / ".lock"]
    inherited = os.dup(descriptor)
    try:
        lock.release()
        with Lock(tmp_path / ".lock"):
            pass
    finally:
        os.close(inherited)


def test_a_forked_process_does_not_let_go_of_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    if not (child := os.fork()):
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(UserError):
        Lock(tmp_path)
    lock.release()


def test_a_forked_process_does_not_hold_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    ready, ended = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b"x")
        os.read(ended[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    lock.release()
    try:
        with Lock(tmp_path):
            pass
    finally:
        os.write(ended[1], b"x")
        os.waitpid(child, 0)


def test_without_locks_a_warning_is_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Lock(tmp_path):
        assert f"{tmp_path}: no lock (No locks available)" in caplog.text
