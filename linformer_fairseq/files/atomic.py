"""Writing files that are at every moment the old ones or the whole new ones.

What is written goes to a temporary name in the same folder, which is renamed when all of it is there.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from linformer_fairseq.files.errors import UserError


@contextmanager
def atomic_open(
    path: Path, mode: str = "w", *, durable: bool = False, temporary: Path | None = None
) -> Iterator[IO[Any]]:
    """Open ``path`` for writing: ``with atomic_open(path) as stream``. It appears at the end of the block.

    Args:
        path: the file, or a link to it, which stays; folders above it that are missing are made.
        mode: "w" for UTF-8 text with ``\\n`` at the end of lines, "wb" for bytes.
        durable: for what must outlast a failure of the machine: the content is on the disk before the file is renamed.
        temporary: the name until then, in the same folder, which is renamed to ``path`` even if that is a link;
            ``.NAME.PROCESS.tmp`` beside the file unless another one is given (of a long NAME, its SHA-256).

    Raises:
        OSError: it cannot be written; the error's file is ``path``, or one in place of a folder above it. What was
            there is untouched then, and neither the temporary file nor a folder made for it stays. The same holds for
            any other exception of the block.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; expected the name of a file", str(path))
    if path.exists() and (not path.is_file() or _is_open_file(path)):  # which the renaming would remove
        raise OSError(errno.EINVAL, "is a device or pipe; expected the name of a file", str(path))
    file = path
    if path.is_symlink() and temporary is None:
        file = Path(os.path.realpath(path))  # resolve() fails for links in a circle
    temporary = temporary or _temporary(file)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with _folders_above(file):
        try:
            with temporary.open(mode, **text) as stream:  # type: ignore[call-overload]
                yield stream
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            if file.exists():
                shutil.copymode(file, temporary)  # what only its owner could read stays so
            temporary.replace(file)
        except OSError as error:  # that of a full disk names no file, others the temporary one
            if error.errno is None or error.filename not in (None, str(temporary)):
                raise
            raise OSError(error.errno, error.strerror, str(path)) from None
        finally:
            if temporary.exists():  # on a read-only file system, unlink also fails for a missing file
                temporary.unlink()
    if durable:  # without it a failure of the machine may undo the rename
        sync(file.parent)


def _temporary(path: Path) -> Path:
    """The name until the file or folder is whole, which is none of a user's own."""
    name = os.fsencode(path.name)
    # names have at most 255 bytes
    short = path.name if len(name) <= 200 else hashlib.sha256(name).hexdigest()
    return path.with_name(f".{short}.{os.getpid()}.tmp")


def _is_open_file(path: Path) -> bool:
    """Whether a name stands for an open file of a process, as /dev/stdout does, which may be redirected to a file."""
    while path.is_symlink():
        if path.parent.resolve().is_relative_to("/proc"):
            return True
        path = path.parent / path.readlink()
    return False


class _Tried(Exception):
    """Ends the writing of a file that is only tried."""


def check_output(option: str, path: Path, *inputs: Path | int | None) -> None:
    """Refuse a file that cannot be written, before the long work that it is for. Nothing stays of the trial.

    Args:
        option: with which the file was given.
        path: the file.
        inputs: files that are read, and would be lost; an open one by its descriptor.

    Raises:
        UserError: it cannot be written, or is one of the inputs; the text says why.
    """
    try:
        with suppress(_Tried), atomic_open(path):
            raise _Tried
    except OSError as error:
        obstacle = "" if error.filename in (None, str(path)) else f"{error.filename}: "
        raise UserError(f"{option} {path}: {obstacle}{error.strerror or error}") from None
    if path.exists() and any(one is not None and _same(path, one) for one in inputs):
        raise UserError(f"{option} {path}: this file is read, and would be lost; choose another file")


def _same(path: Path, other: Path | int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(other) if isinstance(other, int) else other.stat())
    except OSError:  # there is no such file, or the name is none of a file
        return False


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where there are none.

    Raises:
        NotADirectoryError: there is a file in its place or in that of a folder above it; the error names that.
        OSError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(one for one in (path, *path.parents) if os.path.lexists(one))
        raise NotADirectoryError(errno.ENOTDIR, "is a file; a folder was expected", str(file)) from None


def write_file(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write a text, as UTF-8, or bytes to a file; see `atomic_open`.

    Raises:
        OSError: it cannot be written; the error's file is ``path``.
    """
    with atomic_open(path, "w" if isinstance(content, str) else "wb", durable=durable) as stream:
        stream.write(content)


def replace_page(path: Path, text: str, mark: str) -> None:
    """Write a page, in place of an earlier one but of no other file.

    Args:
        path: the file; see `atomic_open`.
        text: the page.
        mark: a part of the text that all pages of this kind have, and no other file.

    Raises:
        UserError: ``path`` is a folder, or a file without the mark.
        OSError: it cannot be written; the error's file is ``path``.
    """
    assert mark in text
    if path.is_dir():
        raise UserError(f"{path}: is a folder; expected the name of a file")
    if path.exists() and mark.encode() not in path.read_bytes():
        raise UserError(
            f"{path}: was not made by this command, which would replace it; give another name, or move it away"
        )
    write_file(path, text)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder, whole or not at all: ``with new_folder(path) as temporary``; it is renamed after the block.

    Raises:
        ValueError: ``path`` exists.
        OSError: it cannot be written; the error's file is ``path`` or in it. Neither the temporary folder nor one made
            above it stays then, nor after any other exception of the block.
    """
    exists = ValueError(f"{path}: already exists; remove it, or choose another folder")
    if os.path.lexists(path):
        raise exists
    temporary = _temporary(path)
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed process
    with _folders_above(path):
        try:
            temporary.mkdir()
            yield temporary
            temporary.rename(path)
        except OSError as error:
            if error.filename2 == str(path) and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise exists from None  # made by another program in the meantime
            file = Path(error.filename or temporary)  # that of a full disk names no file
            if error.errno is None or not file.is_relative_to(temporary):
                raise
            raise OSError(error.errno, error.strerror, str(path / file.relative_to(temporary))) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _folders_above(path: Path) -> Iterator[None]:
    """Make the folders above ``path`` that are missing; if the block fails, they are removed again."""
    missing = list(takewhile(lambda folder: not folder.exists(), path.parents))
    try:
        make_folder(path.parent)
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # it could not be made, or another program has written into it
                folder.rmdir()
        raise


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk.

    Raises:
        OSError: there is no such file or folder.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems refuse it for folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
