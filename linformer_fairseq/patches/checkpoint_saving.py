"""A checkpoint is on the disk, with its checksum, or the run says that it is not.

What fairseq does: it tries to write three times, each time behind what it wrote before; it does not ask for the
bytes to reach the disk; and where it gives up, the last line is torch's "unexpected pos 832 vs 726".

The patch: each attempt begins anew under NAME.tmp, the checksum is part of the file, the file reaches the disk before
it gets its name, and what ends the run names the file, the reason, and what a second start will go on from. Remote
paths (iopath) and ``--write-checkpoints-asynchronously`` are left to fairseq.
"""

import errno
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from linformer_fairseq.checkpoints.folder import choose
from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.training.run_report import LOG

_ATTEMPTS, _PAUSE = 3, 2.5
"""Attempts, as in fairseq, and seconds between two of them."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SavingError(UserError, RuntimeError):
    """A checkpoint could not be saved; the message names the file, the reason and what is still there."""


def _with_checksum(torch_persistent_save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torch_persistent_save)
    def save(obj: Any, filename: str, async_write: bool = False) -> None:
        if async_write or not PathManager.supports_rename(filename):
            torch_persistent_save(obj, filename, async_write)
            return
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return write_checkpoint(obj, filename)
            except OSError as error:
                if attempt == _ATTEMPTS:
                    raise
                LOG.warning(f"{filename}: cannot be saved ({error.strerror or error}); attempt {attempt + 1} follows")
                time.sleep(_PAUSE)

    return save


def _explained(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save_checkpoint)
    def save(cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return save_checkpoint(cfg, trainer, *args, **kwargs)
        except OSError as error:
            message = _explain(error, cfg, trainer.checkpoint_suffix)
            LOG.error(message)
            raise SavingError(message) from error

    return save


def _explain(error: OSError, cfg: Any, suffix: str) -> str:
    what = error.filename2 or error.filename or cfg.save_dir
    name = errno.errorcode.get(error.errno or 0)
    reason = f"{error.strerror} ({name})" if name else str(error)
    remedy = "make room" if error.errno in _NO_ROOM else "fix that"
    said = f"{what}: the checkpoint cannot be saved: {reason}. The run ends here. "
    try:
        chosen = choose(Path(cfg.save_dir), suffix).chosen
    except OSError as second:
        return f"{said}What is in {cfg.save_dir} cannot be read either ({second}): {remedy} first."
    if chosen is None or not chosen.usable:
        return f"{said}No earlier one is in {cfg.save_dir}: {remedy} and start anew."
    command = "the same command"
    if cfg.restore_file != "checkpoint_last.pt":
        command += f" without --restore-file {cfg.restore_file}"
    return (
        f"{said}The newest sound one is {chosen.path} ({chosen.updates} updates): {remedy} and start {command} again, "
        "it goes on from there."
    )


REPLACED = (
    (checkpoint_utils, "torch_persistent_save", _with_checksum),
    (checkpoint_utils, "save_checkpoint", _explained),
)
