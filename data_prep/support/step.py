"""A step: the work of one program on one output folder, which can be interrupted at any time and resumed.

While unfinished, the folder contains only ``.unfinished/``, with ``key.json`` (inputs and options), ``outputs/``, and
the state that the program needs to resume. When finished, it contains only the outputs and ``manifest.json``.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from data_prep.support.room import room_in
from linformer_fairseq.files.atomic import make_folder, sync, write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.locks import Lock
from linformer_fairseq.files.provenance import MANIFEST

_UNFINISHED = ".unfinished"
_REPLACED = "replaced.json"
_HINT = "give a new or an empty folder with --out, or delete this one"


def file_state(path: Path) -> dict[str, object]:
    """Identifies a file's content without reading it: path, size in bytes, modification time in ns."""
    state = path.stat()
    return {"path": str(path.resolve()), "size": state.st_size, "mtime_ns": state.st_mtime_ns}


def is_manifest(path: Path) -> bool:
    """Whether a file is the manifest of a finished step."""
    if path.name != MANIFEST:
        return False
    try:
        return {"key", "files"} <= read_object(path).keys()
    except UserError:  # another program's
        return False


def files_of(path: Path, manifest: dict[str, Any], hint: str = _HINT) -> dict[str, Any]:
    """The sizes of the outputs by name, as a manifest has them.

    Raises:
        UserError: there are none, or a name is not of a file in the folder: it could be removed with the outputs.
    """
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise UserError(f"{path}: has no list of files; {hint}")
    for name in files:
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
            raise UserError(f"{path}: names {name!r}, which is no file in this folder; {hint}")
    return files


def check_complete(folder: Path, files: Mapping[str, int], hint: str) -> None:
    """Check that the outputs of a step are as it wrote them.

    Args:
        folder: the step's.
        files: ``files`` of its manifest: their sizes in bytes by name.
        hint: what the user can do.

    Raises:
        UserError: one is missing, or has another size.
    """
    for name, size in files.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise UserError(f"{file}: is missing or has changed since it was written; {hint}")


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

    def __init__(
        self, out: Path, key: dict[str, Any], redo: bool = False, same_so_far: dict[str, Any] | None = None
    ) -> None:
        """Args:
        out: folder for the outputs.
        key: everything that the outputs depend on, as JSON values: ``program``, options and states of the inputs.
        redo: always start over, for short work; the outputs of an earlier run are kept until the new ones replace them.
        same_so_far: a key whose unfinished work, and whose outputs, are those of this one.
        """
        self.out = out
        self.work = out / _UNFINISHED
        """Folder for the state that is needed to resume."""
        self.outputs = self.work / "outputs"
        """Folder for the outputs until all of them are complete."""
        self.manifest: dict[str, Any] | None = None
        """Manifest of this step if it is finished, otherwise None."""
        self.resumed = False
        """Whether ``work`` contains work of an earlier run."""
        self._digest = _digest(key)
        self._accepted = self._digest, _digest(same_so_far or key)
        self._program = str(key["program"]).split()[0]  # without a version
        self._redo = redo

    def __enter__(self) -> "Step":
        """Raises:
        UserError: another process is using the folder, or it contains other files, or another program's work.
        OSError: it cannot be made.
        """
        self._made = not self.out.exists()
        make_folder(self.out)
        self._lock = Lock(self.out)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        if (self.work / MANIFEST).is_file():  # killed while the outputs were moved
            self._publish()
        elif self.work.is_dir() and (self.out / MANIFEST).is_file():  # killed after that
            self._forget()
        key_file = self.work / "key.json"
        if key_file.is_file():
            digest, _, program = key_file.read_text().partition(" ")
            if program not in ("", self._program):  # "": of an earlier version
                raise UserError(f"{self.out}: holds unfinished work of data_prep.{program}, another program; {_HINT}")
            if digest not in self._accepted:
                print(f"{self.out}: the unfinished work there was on other inputs or options; starting afresh")
            elif not self._redo:
                self.resumed = True
                self._write_key()  # what is added is of this key alone
                for leftover in self.work.rglob(".*.tmp"):  # of a killed process: see atomic_open
                    leftover.unlink()
                return
        elif not self.work.is_dir() and any(self.out.iterdir()):
            manifest = self._finished()
            if not self._redo:
                self.manifest = manifest
                return
        self.clear()

    def _finished(self) -> dict[str, Any]:
        """The manifest of this step, if the folder has its complete output.

        Raises:
            UserError: the folder contains something else, or its files have changed.
        """
        path = self.out / MANIFEST
        if not path.is_file():
            raise UserError(f"{self.out}: this folder holds other files; {_HINT}")
        manifest = read_object(path, _HINT)
        if manifest.get("key") not in self._accepted:
            raise UserError(
                f"{self.out}: holds finished data of other inputs or options (a file that was moved or written again "
                f"is another one); {_HINT}"
            )
        files = files_of(path, manifest)
        if self._redo:
            present = {str(path.relative_to(self.out)) for path in self.out.rglob("*") if not path.is_dir()}
            if foreign := sorted(present - {MANIFEST, *files}):
                raise UserError(
                    f"{self.out / foreign[0]}: was not made by this program, which is to replace what is in this "
                    "folder; move it away, or give a new folder with --out"
                )
            return manifest
        check_complete(self.out, files, _HINT)
        return manifest

    def clear(self) -> None:
        """Delete all unfinished work and start over."""
        self._forget()
        self.outputs.mkdir(parents=True)
        self._write_key()

    def _write_key(self) -> None:
        write_file(self.work / "key.json", f"{self._digest} {self._program}")

    def _forget(self) -> None:
        # The key goes first: what is half removed must not be taken for work to carry on with.
        (self.work / "key.json").unlink(missing_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Move everything in ``outputs`` to its final place and delete the working state.

        Args:
            manifest: the manifest; ``key`` and ``files`` (path and size in bytes of each output) are added.

        Returns:
            The manifest as written.
        """
        files = {
            str(path.relative_to(self.outputs)): path.stat().st_size
            for path in sorted(self.outputs.rglob("*"))
            if path.is_file()
        }
        for path in [*self.outputs.rglob("*"), self.outputs]:
            sync(path)
        self.manifest = {**manifest, "key": self._digest, "files": files}
        write_json(self.work / MANIFEST, self.manifest)
        sync(self.work / MANIFEST)
        self._publish()
        sync(self.out)
        return self.manifest

    def _publish(self) -> None:
        # The manifest of the outputs to be replaced goes first, as that of the new ones comes last: a folder with a
        # manifest has all of its files.
        if (self.out / MANIFEST).is_file():
            (self.out / MANIFEST).replace(self.work / _REPLACED)
        if (self.work / _REPLACED).is_file():
            new = _names(self.work / MANIFEST)
            for name in _names(self.work / _REPLACED):
                if name not in new or (self.outputs / name).exists():  # not those that are moved already
                    _remove(self.out / name)
            (self.work / _REPLACED).unlink()
        for path in sorted(self.outputs.iterdir()):
            path.replace(self.out / path.name)
        (self.work / MANIFEST).replace(self.out / MANIFEST)
        shutil.rmtree(self.work)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if value is not None and self._redo and not (self.work / MANIFEST).is_file():
                self._forget()
                if self._made and not any(self.out.iterdir()):
                    with suppress(OSError):  # no harm; the step's own error is to be seen
                        self.out.rmdir()
        finally:
            self._lock.release()
        if isinstance(value, OSError):
            with room_in(self.out):
                raise value


def _names(manifest: Path) -> set[str]:
    """The top-level files and folders in a manifest."""
    return {Path(name).parts[0] for name in files_of(manifest, read_object(manifest, _HINT))}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
