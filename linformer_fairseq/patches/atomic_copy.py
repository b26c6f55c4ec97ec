"""Copies of checkpoints are atomic.

What fairseq does: it writes a checkpoint under a temporary name and renames it, but then copies it onto
``checkpoint_last.pt`` and ``checkpoint_best.pt`` in place, without fsync. A process killed during the copy leaves a
truncated ``checkpoint_last.pt`` (7 of 7 kills timed to the copy), from which no restart recovers.

The patch: the copy is written to ``NAME.tmp`` in the same folder, as fairseq names its own temporary files,
synchronized to disk and renamed. Remote paths (iopath) are left to fairseq.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.file_io import PathManager

from linformer_fairseq.checkpoints.writing import copy_atomically


def _local_copies_atomic(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_path(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if any(PathManager.path_requires_pathmanager(path) for path in (src_path, dst_path)):
            return copy(src_path, dst_path, overwrite)
        if not overwrite and Path(dst_path).exists():
            return False  # as iopath does; fairseq without iopath would overwrite
        copy_atomically(src_path, dst_path)
        return True

    return copy_path


REPLACED = ((PathManager, "copy", _local_copies_atomic),)
