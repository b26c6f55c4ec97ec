"""`linformer demo`: it starts, answers, ends in order, and says what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from linformer_fairseq import cli
from linformer_fairseq.demo.server import Server
from tests.forked import Forked
from tests.messages import says
from tests.models import make_classifier

MASKED = "He opened the <mask> and walked into the room."


def address_of(process: Forked) -> str:
    """What it prints when it is ready."""
    end = time.monotonic() + 300
    while not (found := re.search(r"http://\S+/", process.printed)):
        assert process.poll() is None and time.monotonic() < end, process.printed
        time.sleep(0.05)
    return found[0]


def ask(url: str) -> None:
    """Ask a server for its model; the reply may be lost."""
    with contextlib.suppress(OSError), urlopen(f"{url}api/model", timeout=60):
        pass


def seconds_of_work(process: Forked) -> float:
    """How long a processor has worked for a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_answers_and_ends(number: signal.Signals, start_fairseq: Callable[..., Forked], tmp_path: Path) -> None:
    with start_fairseq("linformer", "demo", "linformer-small", "--port", "0", cwd=tmp_path) as process:
        address = address_of(process)
        assert address.startswith("http://127.0.0.1:")
        body = json.dumps({"text": MASKED, "top": 1}).encode()
        asked = Request(f"{address}api/fill-mask", body, {"Content-Type": "application/json"})
        with urlopen(asked, timeout=60) as reply:
            (found,) = json.load(reply)["candidates"]
        assert found["token"] == " door"
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert "Traceback" not in said and "whoever reaches" not in said


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait_for_a_long_answer(
    start_fairseq: Callable[..., Forked], tmp_path: Path
) -> None:
    words = ("demo", "linformer-small-sst2", "--port", "0")
    with start_fairseq("linformer", *words, cwd=tmp_path) as process:
        port = int(address_of(process).rstrip("/").rpartition(":")[2])
        body = json.dumps({"text": "good " * 400_000, "long": "windows"}).encode()  # minutes
        head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            before = seconds_of_work(process)
            connection.sendall(f"POST /api/classify HTTP/1.0\r\n{head}".encode() + body)
            end = time.monotonic() + 300
            while seconds_of_work(process) < before + 1:  # more than it takes to read the request
                assert time.monotonic() < end, process.printed
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            while "waiting for the answer" not in process.printed:
                assert time.monotonic() < end, process.printed
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 128 + signal.SIGINT, process.printed


@pytest.mark.slow
def test_a_classifier_has_its_classes(tmp_path: Path, start_fairseq: Callable[..., Forked]) -> None:
    folder = make_classifier(tmp_path)
    words = ("demo", folder, "--port", "0", "--host", "0.0.0.0", "--int8")
    with start_fairseq("linformer", *words, cwd=tmp_path) as process:
        port = address_of(process).rstrip("/").rpartition(":")[2]
        assert "--host 0.0.0.0" in process.printed, "no warning"
        with urlopen(f"http://127.0.0.1:{port}/api/model", timeout=60) as reply:
            found = json.load(reply)
        assert found["labels"] == ["0", "1"] and found["routes"] == ["/api/attention", "/api/classify"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_signal_while_a_request_begins_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, serve = ThreadingHTTPServer.process_request, Server.serve
    again: list[int] = []
    ignored: list[object] = []
    threads: list[threading.Thread] = []

    def begin_and_end(server: ThreadingHTTPServer, request: Any, address: Any) -> None:
        begin(server, request, address)
        while request.fileno() != -1:  # its thread has not replied yet
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    def watch() -> None:
        again.append(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    def serve_and_ask(server: Server) -> None:
        threads.append(threading.Thread(target=ask, args=(server.url,)))
        ignored.append(signal.getsignal(signal.SIGINT))
        for thread in (*threads, watchdog):
            thread.start()
        serve(server)

    watchdog = threading.Timer(30, watch)
    watchdog.daemon = True
    monkeypatch.setattr(ThreadingHTTPServer, "process_request", begin_and_end)
    monkeypatch.setattr(Server, "serve", serve_and_ask)
    before = [signal.signal(signal.SIGINT, signal.SIG_IGN), signal.getsignal(signal.SIGTERM)]  # as of a job of a script
    try:
        assert cli.main(["demo", "linformer-small", "--port", "0"]) == 0
        assert ignored == [signal.SIG_IGN] and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before[0])
        watchdog.cancel()
        for thread in threads:
            thread.join()
    assert not again, capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before[1]


def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (["linformer-small", "--port", port], [f"--port {port}", "in use", "--port"]),
            (["linformer-small", "--port", "65536"], ["--port 65536", "65535"]),
            (["linformer-small", "--port", "0", "--host", "203.0.113.9"], ["--host 203.0.113.9"]),
            (["no_model", "--port", "0"], ["no_model", "linformer-small"]),
        ]
        before = signal.getsignal(signal.SIGTERM)
        for words, expected in cases:
            assert cli.main(["demo", *words]) == 1
            said = capsys.readouterr().err
            assert said.count("\n") == 1 and says(said, "linformer demo: error:", *expected), said
        assert signal.getsignal(signal.SIGTERM) is before
