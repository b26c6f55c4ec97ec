"""Writing checkpoints: a file is at every moment the old one or the whole new one, and carries its checksum."""

import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

import torch

from linformer_fairseq.checkpoints.checksum import ChecksumWriter
from linformer_fairseq.files.atomic import atomic_open


def whole_file(target: str | os.PathLike[str]) -> AbstractContextManager[Any]:
    """Write a checkpoint that is at every moment the old one or the whole new one: ``with whole_file(path) as file``.

    Raises:
        OSError: if it cannot be written, naming ``target``; that is then untouched and no temporary file stays.
    """
    target = Path(target)
    # fairseq's name for it, without the number of the process: what a killed save leaves is found and removed.
    return atomic_open(target, "wb", durable=True, temporary=target.with_name(target.name + ".tmp"))


def copy_atomically(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a file so that ``target`` is at every moment the old file or the whole new one.

    Raises:
        OSError: if it cannot be read or written; ``target`` is then untouched and no temporary file stays.
    """
    with Path(source).open("rb") as reader, whole_file(target) as writer:
        shutil.copyfileobj(reader, writer, 16 * 1024 * 1024)


def write_checkpoint(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint with its checksum so that ``path`` is the old file or the whole new one.

    Args:
        state: what ``torch.save`` is given.
        path: the file.

    Raises:
        OSError: if it cannot be written; no temporary file stays.
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
