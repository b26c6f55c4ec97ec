"""A folder that appears whole or not at all, and that can be made again."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data_prep.support.errors import DataError

MANIFEST = "manifest.json"


def check_target(out: Path, task: str) -> bool:
    """Whether ``out`` holds this task from an earlier run, to be replaced.

    Raises:
        DataError: it holds anything else, which is not ours to remove.
    """
    if not out.exists():
        return False
    if not out.is_dir():
        raise DataError(f"--out {out}: is a file; expected a new folder")
    present = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir()}
    if not present:
        return False
    try:
        manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        known, name = {MANIFEST, *manifest["files"]}, manifest["task"]
    except (OSError, ValueError, TypeError, KeyError):
        raise DataError(f"--out {out}: this folder holds other files; give a new or an empty one") from None
    if foreign := sorted(present - known):
        raise DataError(
            f"--out {out}: {foreign[0]} in it was not made by this program; move it away, or give a new folder"
        )
    if name != task:
        raise DataError(f"--out {out}: this folder holds the task {name}; give {task} a folder of its own")
    return True


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A new folder beside ``out`` that takes its place, and name, when the block ends without an error.

    What a killed run left beside it is removed; a second run at the same time is refused.

    Raises:
        DataError: another run is writing ``out``, or the disk is full.
    """
    partial = out.with_name(f".{out.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    handle = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"--out {out}: another run is writing this folder; wait for it, or end it") from None
        except OSError:
            pass  # a file system without locks
        _empty(partial)
        try:
            yield partial
            _sync(partial)
            _replace(out, partial)
        except OSError as error:
            # Errors of writing have no file name; the folder is what the user can do something about.
            raise DataError(f"--out {out}: cannot be written ({error.strerror or error}); nothing was kept") from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    finally:
        os.close(handle)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _sync(folder: Path) -> None:
    """Bring everything to the disk before it gets its name."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems refuse it for folders
                os.fsync(handle)
        finally:
            os.close(handle)


def _replace(out: Path, partial: Path) -> None:
    old = out.with_name(f".{out.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
