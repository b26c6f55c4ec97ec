"""A small web server: a page of fixed files, and functions that answer a JSON object with another.

It is made for one user who tries something on the own machine, not for the internet: it knows no passwords and no
encryption. Every reply tells the browser to load nothing from elsewhere; requests are limited in size, time and number.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from linformer_fairseq import web
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import parse

LARGEST = 2 << 20
"""Bytes of the largest file that the page reads."""
LARGEST_REQUEST = 2 * LARGEST + 4096
"""Bytes of the largest request: in JSON, a quotation mark or line feed is two."""
_SECONDS = 30.0
"""In which a request has to be there."""
_CONNECTIONS = 16
"""At a time; the others are refused."""
_REFUSING = 0.1
"""Seconds, or twice as many, in which a client that is refused has to take the reply; others wait meanwhile."""
_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": (_PAGE / "index.html", "text/html; charset=utf-8"),
    "/base.css": (web.FOLDER / "base.css", "text/css; charset=utf-8"),
    "/style.css": (web.FOLDER / "style.css", "text/css; charset=utf-8"),
    "/script.js": (_PAGE / "script.js", "text/javascript; charset=utf-8"),
    "/heat_map.js": (web.FOLDER / "heat_map.js", "text/javascript; charset=utf-8"),
}
_JSON = "application/json"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}

Answer = Callable[[Any], object]
"""Answers a value that came as JSON with one that can be written as JSON. A ValueError or UserError is the client's:
its message is the reply."""


class Refusal(Exception):
    """A request that gets an error as its reply.

    Args:
        status: of the reply.
        message: what is wrong, and what was expected.
        allow: the method that the address has, for 405.
    """

    def __init__(self, status: HTTPStatus, message: str, allow: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.allow = allow


class Server(ThreadingHTTPServer):
    """Listens from the beginning, and replies while `serve` runs.

    Args:
        host: name or address to listen on.
        port: number; 0: any that is free.

    Raises:
        UserError: it cannot listen there, for example because the port is in use.
    """

    daemon_threads = True  # an open connection does not hold up the end
    timeout = 0.1  # seconds until `serve` looks again whether it is to end

    def __init__(self, host: str, port: int) -> None:
        self.values: Mapping[str, object] = {}
        """What GET replies, by path, beside the page."""
        self.answers: Mapping[str, Answer] = {}
        """What answers POST, by path; one at a time."""
        self._stopped = False
        self._computing = threading.Lock()
        self._unsent = 0
        self._sent = threading.Condition()
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self.files = {path: (file.read_bytes(), kind) for path, (file, kind) in _FILES.items()}
        if not 0 <= port <= 65535:
            raise UserError(f"--port {port}: expected a number from 0 (any free port) to 65535")
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.address_family = family
            super().__init__((str(address[0]), port), _Handler)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(
                f"--host {host} --port {port}: cannot listen there: {reason}; choose another --port (0: any that is "
                "free), or as --host an address of this machine"
            ) from None
        self.local = ipaddress.ip_address(str(address[0])).is_loopback
        """Whether only this machine reaches it."""

    @property
    def url(self) -> str:
        """Where the page is."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def serve(self) -> None:
        """Reply to requests until `stop` is called."""
        while not self._stopped:
            self.handle_request()

    def stop(self, *_: object) -> None:
        """Let `serve` end; also a handler of signals, where an exception could come while `socketserver` catches it."""
        self._stopped = True

    def answer(self, path: str, value: object) -> bytes:
        """The JSON of the answer to a value."""
        with self._computing:
            found = self.answers[path](value)
            try:
                content = json.dumps(found, allow_nan=False).encode()
            except ValueError as error:  # not the client's
                raise ArithmeticError("the answer has numbers that are not finite") from error
            with self._sent:
                self._unsent += 1
            return content

    def answer_sent(self) -> None:
        """Note that an answer has reached its client, or cannot."""
        with self._sent:
            self._unsent -= 1
            self._sent.notify_all()

    def finish(self) -> None:
        """Wait until the answer that is being computed is sent, and begin no other: the process must not end before."""
        if not self._computing.acquire(blocking=False):
            print("waiting for the answer that is being computed", file=sys.stderr, flush=True)
            self._computing.acquire()
        with self._sent:
            self._sent.wait_for(lambda: not self._unsent, timeout=_SECONDS)

    def server_bind(self) -> None:
        """As in HTTPServer, without a look-up of the host's name, which takes seconds on some networks."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request, if there are not too many."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:  # no thread
                self._free.release()
                raise
            return
        content = json.dumps({"error": f"{_CONNECTIONS} connections are open; try again later"}).encode()
        fields = {**_HEADERS, "Content-Type": _JSON, "Content-Length": len(content)}
        lines = ["HTTP/1.0 503 Service Unavailable", *(f"{name}: {value}" for name, value in fields.items()), "\r\n"]
        end = time.monotonic() + _REFUSING
        with contextlib.suppress(OSError):  # the client has gone, and misses nothing
            request.settimeout(_REFUSING)
            request.sendall("\r\n".join(lines).encode() + content)
            request.shutdown(socket.SHUT_WR)
            while request.recv(1 << 16) and time.monotonic() < end:  # see `_Handler._refuse`
                pass
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Reply to the request, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback, except of a client that went away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request. HTTP 1.0: the connection ends with it."""

    server: Server
    timeout = _SECONDS  # of each reading and writing; `setup` limits the reading as a whole
    server_version, sys_version = "linformer", ""

    def setup(self) -> None:
        super().setup()
        self._clock = threading.Timer(_SECONDS, self._stop_reading)
        self._clock.daemon = True
        self._clock.start()

    def finish(self) -> None:
        self._clock.cancel()
        super().finish()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the page shows which requests fail."""

    def do_GET(self) -> None:
        """Reply with a file of the page, or with a value."""
        self._respond(self._found)

    def do_POST(self) -> None:
        """Reply with an answer."""
        self._has_answer = False
        try:
            self._respond(self._answered)
        finally:
            if self._has_answer:
                self.server.answer_sent()

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Reply with an error as JSON; `BaseHTTPRequestHandler` calls this for requests that it cannot read."""
        self._refuse(Refusal(HTTPStatus(code), message or HTTPStatus(code).phrase))

    def _respond(self, find: Callable[[], tuple[bytes, str]]) -> None:
        try:
            self._check_host()
            content, kind = find()
        except Refusal as refusal:
            self._refuse(refusal)
        else:
            self._send(HTTPStatus.OK, content, kind)

    def _check_host(self) -> None:
        """Refuse other names than those of this machine, by which a page from elsewhere could reach a local server: its
        owner lets them point to 127.0.0.1 (DNS rebinding)."""
        if not self.server.local:
            return
        given = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{given}").hostname or ""
            known = name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            known = False
        if not known:
            raise Refusal(HTTPStatus.FORBIDDEN, f"Host: {given[:100]}: expected localhost or its address")

    def _path(self, method: str) -> str:
        """The path, which has to be one of those with this method."""
        path = self.path.partition("?")[0]
        methods = {"GET": self.server.files.keys() | self.server.values.keys(), "POST": self.server.answers.keys()}
        if path not in methods[method]:
            other = next((name for name, paths in methods.items() if path in paths), None)
            if other is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"{path[:100]}: there is no such address")
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path}: expected {other}, found {method}", other)
        return path

    def _found(self) -> tuple[bytes, str]:
        path = self._path("GET")
        if path in self.server.files:
            return self.server.files[path]
        return json.dumps(self.server.values[path], allow_nan=False).encode(), _JSON

    def _answered(self) -> tuple[bytes, str]:
        path = self._path("POST")
        if self.headers.get_content_type() != _JSON:  # which no page from elsewhere can send without asking first
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: expected {_JSON}")
        body = self._body()
        try:
            value = parse(body.decode())
        except ValueError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the request is not JSON: {error}") from None
        try:
            content = self.server.answer(path, value)
            self._has_answer = True
            return content, _JSON
        except (ValueError, UserError) as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        except Exception as error:
            traceback.print_exc()
            message = "the server failed; the terminal of `linformer demo` says how"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, message) from error

    def _body(self) -> bytes:
        given = self.headers.get("Content-Length", "")
        if not (given.isascii() and given.isdecimal()) or "Transfer-Encoding" in self.headers:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Content-Length: expected the number of bytes")
        if len(given) > 18 or int(given) > LARGEST_REQUEST:
            message = f"the request has {given[:18]} bytes; expected at most {LARGEST_REQUEST:,}"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        body = self.rfile.read(int(given))
        if len(body) < int(given):
            found = f"only {len(body):,} of {int(given):,} bytes came"
            message = f"{found} before the connection ended, or within {_SECONDS:.0f} seconds"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, message)
        return body

    def _refuse(self, refusal: Refusal) -> None:
        content = json.dumps({"error": str(refusal)}).encode()
        self._send(refusal.status, content, _JSON, {"Allow": refusal.allow} if refusal.allow else {})
        # A connection that is closed before everything has been read is reset, and the client may lose the reply.
        self.wfile.flush()
        with contextlib.suppress(OSError):  # the connection has ended
            self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(1 << 16):
            pass

    def _send(self, status: HTTPStatus, content: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stop_reading(self) -> None:
        with contextlib.suppress(OSError):  # the connection has ended
            self.connection.shutdown(socket.SHUT_RD)
