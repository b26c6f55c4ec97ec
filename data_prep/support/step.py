"""A step: one program's work on one output folder, which may be interrupted at any moment and run again.

While it is unfinished, the folder holds ``.unfinished/`` and nothing else: ``key.json`` (what the step is made from),
``outputs/``, and whatever the program keeps there to carry on. Once finished it holds the outputs and
``manifest.json``, nothing else.
"""

import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from data_prep.support.errors import DataError
from data_prep.support.files import write_json, write_text

MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished"


def file_state(path: Path) -> dict[str, object]:
    """What tells that a file has changed, without reading it: path, size in bytes, time of change in ns."""
    state = path.stat()
    return {"path": str(path.resolve()), "size": state.st_size, "mtime_ns": state.st_mtime_ns}


def _digest(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


class Step:
    """Context manager around a program's work on ``out``; see the module.

    ::

        with Step(out, key) as step:
            if step.manifest is None:        # otherwise all is done already
                ... step.work / "part3" ...      # kept until finish(), also over a kill
                ... step.outputs / "train.bin" ...  # moved to out / "train.bin" by finish()
                step.finish(manifest)
    """

    def __init__(self, out: Path, key: dict[str, Any]) -> None:
        """Args:
        out: folder for the outputs.
        key: options and states of the inputs, JSON-able: what the outputs depend on, and nothing else.
        """
        self.out = out
        self.work = out / _UNFINISHED
        """Folder for what is needed to carry on."""
        self.outputs = self.work / "outputs"
        """Folder for the outputs until all of them are complete."""
        self.manifest: dict[str, Any] | None = None
        """That of the finished step, where this very step is finished."""
        self.resumed = False
        """Whether there is work of an earlier run in ``work``."""
        self._digest = _digest(key)
        self._key = key

    def __enter__(self) -> "Step":
        """Raises:
        DataError: another process is at work there, or the folder holds something else.
        """
        if self.out.exists() and not self.out.is_dir():
            raise DataError(f"{self.out}: is a file, a folder was expected")
        self.out.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.out, os.O_RDONLY)
        try:
            self._open()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def _open(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{self.out}: another process is writing to this folder; wait until it has ended") from None
        if (self.work / MANIFEST).is_file():  # killed while the outputs were moved
            self._publish()
        elif self.work.is_dir() and (self.out / MANIFEST).is_file():  # killed after that
            shutil.rmtree(self.work)
        key_file = self.work / "key.json"
        if key_file.is_file():
            if key_file.read_text() == self._digest:
                self.resumed = True
                for leftover in self.work.rglob(".*.tmp"):  # of a killed process: see files.atomic_open
                    leftover.unlink()
                return
            print(f"{self.out}: the unfinished work there was on other inputs or with other options; starting afresh")
        elif not self.work.is_dir() and any(self.out.iterdir()):
            self.manifest = self._finished()
            return
        self.clear()

    def _finished(self) -> dict[str, Any]:
        path = self.out / MANIFEST
        hint = "give a new or an empty folder with --out, or delete this one"
        if not path.is_file():
            raise DataError(f"{self.out}: this folder holds other files; {hint}")
        try:
            manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}); {hint}") from None
        if manifest.get("key") != self._digest:
            raise DataError(f"{self.out}: holds finished data of other inputs or options; {hint}")
        for name, size in manifest["files"].items():
            file = self.out / name
            if not file.is_file() or file.stat().st_size != size:
                raise DataError(f"{file}: is missing or has changed since it was written; {hint}")
        return manifest

    def clear(self) -> None:
        """Begin again with nothing."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.outputs.mkdir(parents=True)
        write_text(self.work / "key.json", self._digest)

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Everything is in ``outputs``: move it to its place and forget how it came about.

        Args:
            manifest: without ``key`` and ``files`` (path and size in bytes of each output), which are added.

        Returns:
            The manifest as written.
        """
        files = {
            str(path.relative_to(self.outputs)): path.stat().st_size
            for path in sorted(self.outputs.rglob("*"))
            if path.is_file()
        }
        self.manifest = {**manifest, "key": self._digest, "files": files}
        write_json(self.work / MANIFEST, self.manifest)
        self._publish()
        return self.manifest

    def _publish(self) -> None:
        for path in sorted(self.outputs.iterdir()):
            path.replace(self.out / path.name)
        (self.work / MANIFEST).replace(self.out / MANIFEST)
        shutil.rmtree(self.work)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)
