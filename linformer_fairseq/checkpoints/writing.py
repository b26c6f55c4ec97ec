"""Writes and copies checkpoints atomically, and adds a checksum."""

import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

import torch

from linformer_fairseq.checkpoints.checksum import ChecksumWriter
from linformer_fairseq.files.atomic import atomic_open


def whole_file(target: str | os.PathLike[str]) -> AbstractContextManager[Any]:
    """Open a checkpoint for atomic writing: ``with whole_file(path) as file``.

    Raises:
        OSError: if it cannot be written, naming ``target``, which is not changed; no temporary file remains.
    """
    target = Path(target)
    # fairseq's temporary name, without the process id: the file of a killed save is found and removed.
    return atomic_open(target, "wb", durable=True, temporary=target.with_name(target.name + ".tmp"))


def copy_atomically(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a file atomically: ``target`` is always the old file or the complete new one.

    Raises:
        OSError: if it cannot be read or written; ``target`` is not changed, and no temporary file remains.
    """
    with Path(source).open("rb") as reader, whole_file(target) as writer:
        shutil.copyfileobj(reader, writer, 16 * 1024 * 1024)


def write_checkpoint(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint with its checksum, atomically.

    Args:
        state: the object for ``torch.save``.
        path: the file.

    Raises:
        OSError: if it cannot be written; no temporary file remains.
    """
    with whole_file(path) as file:
        writer = ChecksumWriter(file)
        try:
            torch.save(state, cast(IO[bytes], writer))
        except Exception:
            if writer.failure is not None:
                raise writer.failure from None
            raise
        writer.finish()
