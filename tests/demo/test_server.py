"""The server of the demo: what it sends, and what it refuses."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq import web
from linformer_fairseq.demo import server as module
from linformer_fairseq.demo.server import LARGEST_REQUEST, Server, _Handler
from linformer_fairseq.files.errors import UserError

JSON = {"Content-Type": "application/json"}


def count(value: Any) -> object:
    if value == "nan":
        return {"count": float("nan")}
    if value == "fail":
        raise RuntimeError("secret of the server")
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {value!r}")
    return {"count": len(value)}


@pytest.fixture
def server() -> Iterator[Server]:
    with running("127.0.0.1") as found:
        yield found


class running:
    """A server with one value and one answer, until it is left."""

    def __init__(self, host: str) -> None:
        self.server = Server(host, 0)
        self.server.values, self.server.answers = {"/api/model": {"n": 8}}, {"/api/count": count}
        self.server.timeout = 0.01
        self.thread = threading.Thread(target=self.server.serve)

    def __enter__(self) -> Server:
        self.thread.start()
        return self.server

    def __exit__(self, *error: object) -> None:
        self.server.stop()
        self.thread.join()
        self.server.server_close()


def request(
    server: Server, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(*server.server_address[:2], timeout=20)
    connection.request(method, path, body, headers or {})
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply, content


def raw(server: Server, sent: bytes) -> bytes:
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(sent)
        found = b""
        while more := connection.recv(1 << 16):
            found += more
        return found


def error_of(reply: HTTPResponse, content: bytes) -> str:
    assert reply.headers.get_content_type() == "application/json"
    return str(json.loads(content)["error"])


def test_the_page_is_sent_with_headers_that_keep_it_to_itself(server: Server) -> None:
    kinds = {"/": "text/html", "/base.css": "text/css", "/style.css": "text/css"} | dict.fromkeys(
        ["/script.js", "/heat_map.js"], "text/javascript"
    )
    for path, kind in kinds.items():
        reply, content = request(server, "GET", path)
        assert reply.status == 200 and reply.headers.get_content_type() == kind and content
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "unsafe" not in reply.headers["Content-Security-Policy"]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "Python" not in reply.headers["Server"]


def test_every_file_of_the_page_is_sent_and_named() -> None:
    paths = {path for path, _ in module._FILES.values()}
    assert paths == {*Path(module.__file__).parent.joinpath("page").iterdir(), *web.FOLDER.glob("*.[cj]s*")}
    loaded = {"/"}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for address in re.findall(r"""(?:src|href|from)=?\s*"(/[^"]*)""", text):
            assert address in module._FILES, f"{path.name} loads {address}"
            loaded.add(address)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?://", text)
    assert loaded == set(module._FILES)


def test_values_and_answers(server: Server) -> None:
    reply, content = request(server, "GET", "/api/model?x=1")
    assert (reply.status, json.loads(content)) == (200, {"n": 8})
    reply, content = request(server, "POST", "/api/count", b"[1, 2]", JSON)
    assert (reply.status, json.loads(content)) == (200, {"count": 2})
    assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "words"),
    [
        ("POST", "/api/count", b"{}", JSON, 400, "expected a list, found {}"),
        ("POST", "/api/count", b"{", JSON, 400, "JSON"),
        ("POST", "/api/count", b"[" * 100_000, JSON, 400, "JSON"),
        ("POST", "/api/count", b"\xff", JSON, 400, "JSON"),
        ("POST", "/api/count", b'["\\ud800"]', JSON, 400, "surrogate"),
        ("POST", "/api/count", b"[1]", {"Content-Type": "text/plain"}, 415, "application/json"),
        ("POST", "/api/count", b"[1]", {}, 415, "application/json"),
        ("POST", "/api/count", b"[1]", {**JSON, "Transfer-Encoding": "chunked"}, 411, "Content-Length"),
        ("POST", "/api/count", b"", {**JSON, "Content-Length": "-1"}, 411, "Content-Length"),
        ("POST", "/api/count", b"", {**JSON, "Content-Length": "9" * 5000}, 413, f"{LARGEST_REQUEST:,}"),
        ("POST", "/api/other", b"[1]", JSON, 404, "/api/other"),
        ("POST", "/", b"[1]", JSON, 405, "expected GET"),
        ("GET", "/api/count", None, {}, 405, "expected POST"),
        ("GET", "/server.py", None, {}, 404, "/server.py"),
        ("GET", "/../server.py", None, {}, 404, "/../server.py"),
        ("GET", "/%2e%2e/server.py", None, {}, 404, "server.py"),
        ("GET", "//etc/passwd", None, {}, 404, "passwd"),
        ("OPTIONS", "/api/count", None, {}, 501, "OPTIONS"),
        ("GET", "/", None, {"Host": "evil.example"}, 403, "evil.example"),
        ("POST", "/api/count", b"[1]", {**JSON, "Host": "evil.example:80"}, 403, "evil.example"),
        ("GET", "/", None, {"Host": "localhost.evil.example"}, 403, "localhost"),
        ("GET", "/", None, {"Host": "[::1"}, 403, "localhost"),
        ("GET", "/", None, {"Host": "192.168.1.7"}, 403, "192.168.1.7"),
    ],
)
def test_what_is_refused(
    server: Server, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int, words: str
) -> None:
    reply, content = request(server, method, path, body, headers)
    assert reply.status == status
    assert words in error_of(reply, content)
    assert reply.headers["Allow"] == ({"GET": "POST", "POST": "GET"}[method] if status == 405 else None)
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "127.0.0.2:1", "[::1]:80", "LOCALHOST"])
def test_names_of_this_machine(server: Server, host: str) -> None:
    assert request(server, "GET", "/", None, {"Host": host})[0].status == 200


def test_any_name_where_other_machines_may_come() -> None:
    with running("0.0.0.0") as server:
        assert not server.local
        assert request(server, "GET", "/", None, {"Host": "gpu-box.example:7860"})[0].status == 200


def test_the_reply_arrives_although_the_request_was_too_large(server: Server) -> None:
    reply, content = request(server, "POST", "/api/count", b" " * (3 * LARGEST_REQUEST), JSON)
    assert reply.status == 413
    assert f"{LARGEST_REQUEST:,}" in error_of(reply, content)
    fits = b"[" + b" " * (LARGEST_REQUEST - 2) + b"]"
    assert request(server, "POST", "/api/count", fits, JSON)[0].status == 200


def test_a_failure_is_printed_and_not_sent(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    reply, content = request(server, "POST", "/api/count", b'"fail"', JSON)
    assert reply.status == 500
    assert "secret" not in content.decode() and "Traceback" not in content.decode()
    assert "RuntimeError: secret of the server" in capfd.readouterr().err
    assert request(server, "POST", "/api/count", b"[]", JSON)[0].status == 200


def test_an_answer_that_is_not_finite_is_the_servers_fault(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    assert request(server, "POST", "/api/count", b'"nan"', JSON)[0].status == 500
    assert "not finite" in capfd.readouterr().err


def test_what_is_no_http(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    assert b'{"error": ' in raw(server, b"\x16\x03\x01 no http\r\n\r\n")
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.0\r\n\r\n")
    many = b"".join(b"A%d: 1\r\n" % number for number in range(200))
    assert b" 431 " in raw(server, b"GET / HTTP/1.0\r\n" + many + b"\r\n")
    with socket.create_connection(server.server_address[:2]):  # comes, says nothing, goes
        pass
    assert request(server, "GET", "/")[0].status == 200
    assert capfd.readouterr().err == ""


def status_when_free(server: Server) -> int:
    """Status of the page; a client whose reply has been read still counts until its thread has ended."""
    end = time.monotonic() + 20
    while (status := request(server, "GET", "/")[0].status) == 503 and time.monotonic() < end:
        time.sleep(0.01)
    return status


def test_slow_and_many_clients_do_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that never finish their request are let go after a time; until then they count."""
    all_there = threading.Event()

    class Clock(threading.Timer):
        """Begins when all clients are there, however long that takes."""

        def run(self) -> None:
            all_there.wait(20)
            super().run()

    monkeypatch.setattr(threading, "Timer", Clock)
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    monkeypatch.setattr(module, "_REFUSING", 20)
    monkeypatch.setattr(module, "_CONNECTIONS", 2)
    with running("127.0.0.1") as server:
        address = server.server_address[:2]
        head = b"POST /api/count HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(address, 20) as one, socket.create_connection(address, 20) as other:
            one.sendall(head)
            other.sendall(head + b"Content-Length: 9\r\n\r\n[1,")
            refused = raw(server, head + b"Content-Length: 9\r\n\r\n[1,2,3,4]")
            assert refused.startswith(b"HTTP/1.0 503 ") and b'{"error": "2 connections' in refused
            all_there.set()
            assert b" 411 " in one.recv(1 << 16), "its headers ended without a length"
            assert b" 408 " in other.recv(1 << 16)
        for _ in range(3):
            assert status_when_free(server) == 200


def test_requests_without_a_thread_do_not_count(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for _ in range(module._CONNECTIONS):
            assert raw(server, b"GET / HTTP/1.0\r\n\r\n") == b""
    assert request(server, "GET", "/")[0].status == 200


def test_one_answer_at_a_time(server: Server) -> None:
    inside, most = 0, 0
    gate = threading.Lock()

    def slow(value: Any) -> object:
        nonlocal inside, most
        with gate:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.05)
        with gate:
            inside -= 1
        return value

    server.answers = {"/api/slow": slow}
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(request(server, "POST", "/api/slow", b"1", JSON)[0].status))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, most) == ([200] * 5, 1)


def test_finish_waits_for_the_answer_in_progress_and_lets_none_begin(server: Server) -> None:
    begun, go_on = threading.Event(), threading.Event()
    replies: list[bytes] = []

    def slow(value: Any) -> object:
        begun.set()
        assert go_on.wait(20)
        return "done"

    server.answers = {"/api/slow": slow}
    client = threading.Thread(target=lambda: replies.append(request(server, "POST", "/api/slow", b"1", JSON)[1]))
    client.start()
    assert begun.wait(20)
    threading.Timer(0.1, go_on.set).start()
    server.finish()
    assert go_on.is_set()
    client.join(20)
    assert replies == [b'"done"']
    assert not server._computing.acquire(blocking=False)


def test_finish_waits_until_the_answer_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sending, go_on = threading.Event(), threading.Event()
    send = _Handler._send

    def slow(self: _Handler, *given: Any, **more: Any) -> None:
        sending.set()
        assert go_on.wait(20)
        send(self, *given, **more)

    monkeypatch.setattr(_Handler, "_send", slow)
    server.answers = {"/api/quick": lambda _: "done"}
    client = threading.Thread(target=lambda: request(server, "POST", "/api/quick", b"1", JSON))
    client.start()
    assert sending.wait(20)
    end = threading.Thread(target=server.finish)
    end.start()
    end.join(0.2)
    assert end.is_alive()
    go_on.set()
    end.join(20)
    client.join(20)
    assert not end.is_alive() and not server._unsent


def test_where_it_cannot_listen() -> None:
    with running("127.0.0.1") as server:
        for host, port, words in [
            ("127.0.0.1", server.server_port, f"--port {server.server_port}"),
            ("127.0.0.1", 70_000, "--port 70000: expected"),
            ("127.0.0.1", -1, "--port -1: expected"),
            ("203.0.113.9", 0, "--host 203.0.113.9"),
            ("no-such-host.invalid", 0, "--host no-such-host.invalid"),
            ("a" * 70, 0, "--host aaa"),
            ("", 70_000, "--port"),
        ]:
            with pytest.raises(UserError) as error:
                Server(host, port)
            assert words in str(error.value)


def test_its_address() -> None:
    with Server("127.0.0.1", 0) as server:
        assert server.url == f"http://127.0.0.1:{server.server_port}/" and server.local
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        with Server("::1", 0) as server:
            assert server.url == f"http://[::1]:{server.server_port}/" and server.local
