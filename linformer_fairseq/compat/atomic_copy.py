"""A checkpoint is never seen half copied.

What fairseq does: it writes a checkpoint under a temporary name and renames it, but then copies it onto
``checkpoint_last.pt`` and ``checkpoint_best.pt`` in place, without fsync. A process killed in that moment
leaves a truncated ``checkpoint_last.pt`` (7 of 7 aimed kills), from which no restart recovers.

The mend: the copy goes to ``NAME.tmp`` in the same folder, as fairseq names its own temporary files, reaches
the disk and is renamed. Remote paths (iopath) are left to fairseq.
"""

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fairseq.file_io import PathManager

from linformer_fairseq.compat.patching import replace


@contextlib.contextmanager
def whole_file(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that is at every moment the old one or the whole new one: ``with whole_file(path) as file``.

    What the block writes goes to ``NAME.tmp`` in the same folder. At its end it reaches the disk and is renamed.

    Raises:
        OSError: if it cannot be written, naming ``target``; that is then untouched and no temporary file stays.
            The same after any other exception of the block.
    """
    target = Path(target)
    temporary = target.with_name(target.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a failed write does not know of what
            error.filename = os.fspath(target)
        raise
    _sync_folder(target.parent)


def copy_atomically(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a file so that ``target`` is at every moment the old file or the whole new one.

    Raises:
        OSError: if it cannot be read or written; ``target`` is then untouched and no temporary file stays.
    """
    with Path(source).open("rb") as reader, whole_file(target) as writer:
        shutil.copyfileobj(reader, writer, 16 * 1024 * 1024)


def _sync_folder(folder: Path) -> None:
    # Without it a power failure may undo the rename. Some network file systems refuse; the rename stands.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _local_copies_atomic(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_path(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if any(PathManager.path_requires_pathmanager(path) for path in (src_path, dst_path)):
            return copy(src_path, dst_path, overwrite)
        if not overwrite and Path(dst_path).exists():
            return False  # as iopath answers; fairseq without iopath would overwrite
        copy_atomically(src_path, dst_path)
        return True

    return copy_path


def install() -> None:
    """Make ``fairseq.file_io.PathManager.copy`` atomic for local files."""
    replace(PathManager, "copy", _local_copies_atomic)
