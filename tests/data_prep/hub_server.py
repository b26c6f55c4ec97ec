"""A small server on localhost that answers like the Hugging Face hub: what `datasets` and `huggingface_hub` read.

    with HubServer({"datasets/nyu-mll/glue": {"README.md": b"...", "sst2/train-00000-of-00001.parquet": data}}) as hub:
        subprocess.run([...], env=hub.environment(tmp_path))

A repository's name is its path on the hub: ``datasets/OWNER/NAME``, or ``OWNER/NAME`` for a model. It has one
commit, called ``main``; ``datasets/OWNER/NAME@refs/convert/parquet`` (any branch or tag) gives another revision of
it, and ``datasets/OWNER/NAME@0123...`` (40 hex digits) a commit of that sha. ``hub.commit(name)`` is the commit sha
that a revision stands for, made from the content where it is not given: the same content, the same sha. Both
libraries read HF_ENDPOINT when they are imported, so the programs under test run as subprocesses with
``hub.environment(folder)``: the endpoint, and caches of their own in ``folder``.

``hub.requests`` lists the method and path of every request. As on the hub, ``.parquet`` files are LFS files: their
listing carries their sha256.

``parquet_bytes({"text": [...]}, row_group_size=...)`` makes a parquet file. :func:`closed_port_endpoint` is an
endpoint where nobody listens.
"""

import hashlib
import io
import json
import os
import re
import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Files = Mapping[str, bytes]


def parquet_bytes(columns: Mapping[str, list[Any]], row_group_size: int = 1000) -> bytes:
    """A parquet file with ``columns``."""
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), sink, row_group_size=row_group_size)
    return sink.getvalue()


def closed_port_endpoint() -> str:
    """An address on localhost that refuses connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def hub_environment(endpoint: str, caches: Path) -> dict[str, str]:
    """This process's environment, with the hub at ``endpoint`` and the libraries' caches in ``caches``."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    kept = {name: value for name, value in kept.items() if not name.startswith("HF_")}
    mine = {"HF_ENDPOINT": endpoint, "HF_HOME": str(caches), "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {**kept, **mine, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1"}


def _blob_id(data: bytes) -> str:
    """git's id of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubServer:
    """The server; a context manager that listens on a free port of 127.0.0.1 until it is left."""

    def __init__(self, repositories: Mapping[str, Files]) -> None:
        self._trees: dict[str, dict[str, Files]] = {}  # repository -> revision name or sha -> files
        self._commits: dict[tuple[str, str], str] = {}
        for name, files in repositories.items():
            repository, _, revision = name.partition("@")
            sha = hashlib.sha1(repr(sorted((p, _blob_id(d)) for p, d in files.items())).encode()).hexdigest()
            if re.fullmatch("[0-9a-f]{40}", revision):
                sha = revision
            tree = self._trees.setdefault(repository, {})
            tree[revision or "main"] = tree[sha] = files
            self._commits[repository, revision or "main"] = self._commits[repository, sha] = sha
        self.requests: list[tuple[str, str]] = []
        hub = self

        class Handler(_Handler):
            server_state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def endpoint(self) -> str:
        """What HF_ENDPOINT is set to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def commit(self, name: str) -> str:
        """The commit sha of ``datasets/OWNER/NAME`` or ``datasets/OWNER/NAME@REVISION``."""
        repository, _, revision = name.partition("@")
        return self._commits[repository, revision or "main"]

    def environment(self, caches: Path) -> dict[str, str]:
        """The environment of a program that takes this server for the hub; caches go to ``caches``."""
        return hub_environment(self.endpoint, caches)

    def __enter__(self) -> "HubServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def find(self, repository: str, revision: str) -> tuple[str, Files] | str:
        """(commit sha, files) of a revision, or the hub's error code."""
        if repository not in self._trees:
            return "RepoNotFound"
        files = self._trees[repository].get(revision)
        return "RevisionNotFound" if files is None else (self._commits[repository, revision], files)


class _Handler(BaseHTTPRequestHandler):
    """Answers of one connection."""

    server_state: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are in ``HubServer.requests``."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub = self.server_state
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        hub.requests.append((self.command, self.path))
        # A revision such as refs/convert/parquet comes as one quoted segment: unquote after splitting.
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) >= 4 and parts[1] in ("datasets", "models"):
            name = "/".join(parts[2:4])
            self._api(f"datasets/{name}" if parts[1] == "datasets" else name, parts[4:], url.query, body)
        elif "resolve" in parts:
            cut = parts.index("resolve")
            self._file("/".join(parts[:cut]), parts[cut + 1], "/".join(parts[cut + 2 :]))
        else:
            self._error(404, "EntryNotFound")

    def _api(self, repository: str, rest: list[str], query: str, body: bytes) -> None:
        action, revision = (rest[0], rest[1] if len(rest) > 1 else "main") if rest else ("revision", "main")
        found = self.server_state.find(repository, revision)
        if isinstance(found, str):
            return self._error(404, found)
        sha, files = found
        if action == "revision":
            return self._json(self._info(repository, sha, files))
        if action == "tree":
            recursive = parse_qs(query).get("recursive", ["false"])[0].lower() in ("true", "1")
            return self._tree("/".join(rest[2:]), files, recursive)
        if action == "paths-info":
            asked = json.loads(body) if body.startswith(b"{") else parse_qs(body.decode())
            paths = asked["paths"]
            return self._json([x for x in _entries(files) if x["path"] in paths])
        return self._error(404, "EntryNotFound")

    def _info(self, repository: str, sha: str, files: Files) -> dict[str, Any]:
        import yaml

        siblings = [
            {"rfilename": x["path"], "size": x["size"], "blobId": x["oid"], **({"lfs": x["lfs"]} if "lfs" in x else {})}
            for x in _entries(files)
            if x["type"] == "file"
        ]
        name = repository.removeprefix("datasets/")
        readme = files.get("README.md", b"").decode()
        return {
            **{"id": name, "author": name.partition("/")[0], "sha": sha, "siblings": siblings, "tags": []},
            **{"private": False, "gated": False, "disabled": False, "downloads": 0, "likes": 0},
            "lastModified": "2024-01-01T00:00:00.000Z",
            "cardData": yaml.safe_load(readme.partition("---\n")[2].partition("---\n")[0]),
        }

    def _tree(self, folder: str, files: Files, recursive: bool) -> None:
        prefix = f"{folder}/" if folder else ""
        below = [x for x in _entries(files) if x["path"].startswith(prefix)]
        if not below:
            return self._error(404, "EntryNotFound")
        return self._json([x for x in below if recursive or "/" not in x["path"][len(prefix) :]])

    def _file(self, repository: str, revision: str, path: str) -> None:
        found = self.server_state.find(repository, revision)
        if isinstance(found, str):
            return self._error(404, found)
        sha, files = found
        if path not in files:
            return self._error(404, "EntryNotFound", {"X-Repo-Commit": sha})
        data = files[path]
        start, end = 0, len(data)
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1 if last else end, end)
        self.send_response(206 if asked else 200)
        self.send_header("X-Repo-Commit", sha)
        self.send_header("ETag", f'"{_blob_id(data)}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[start:end])
        return None

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        # The hub answers 401 for a repository it does not have, so that private ones cannot be guessed.
        self.send_response(401 if code == "RepoNotFound" else status)
        for name, value in {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _entries(files: Files) -> list[dict[str, Any]]:
    """The files and folders of a revision, as the hub's tree lists them."""
    folders = {parent.as_posix() for path in files for parent in Path(path).parents if parent != Path()}
    entries: list[dict[str, Any]] = [{"type": "directory", "path": x, "oid": _blob_id(x.encode())} for x in folders]
    for path, data in files.items():
        entry = {"type": "file", "path": path, "size": len(data), "oid": _blob_id(data)}
        if path.endswith(".parquet"):
            digest = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": digest, "sha256": digest, "size": len(data), "pointerSize": 130}
        entries.append(entry)
    return sorted(entries, key=lambda entry: str(entry["path"]))
