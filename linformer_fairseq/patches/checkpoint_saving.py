"""Saving a checkpoint is atomic and durable, or fails with the reason.

What fairseq does: it makes up to three attempts, each of which appends to the output of the previous one; it does not
call fsync; and if it gives up, the last line is torch's "unexpected pos 832 vs 726".

The patch: each attempt writes a new NAME.tmp, with a checksum; the file is synchronized to disk before it is renamed;
the error that ends the run names the file, the reason, and the checkpoint to resume from. Remote paths (iopath) and
``--write-checkpoints-asynchronously`` are left to fairseq.
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
from linformer_fairseq.files.errors import NO_ROOM, UserError
from linformer_fairseq.training.resuming import command_to_resume
from linformer_fairseq.training.run_report import LOG

_ATTEMPTS, _PAUSE = 3, 2.5
"""Number of attempts, as in fairseq, and seconds between them."""


class SavingError(UserError, RuntimeError):
    """A checkpoint could not be saved; the message names the file, the reason and the newest valid one."""


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
    remedy = "make room" if error.errno in NO_ROOM else "fix that"
    said = f"{what}: the checkpoint cannot be saved: {reason}. The run ends here. "
    try:
        chosen = choose(Path(cfg.save_dir), suffix).chosen
    except OSError as second:
        return f"{said}{cfg.save_dir} cannot be read either ({second}): {remedy} first."
    if chosen is None or not chosen.usable:
        return f"{said}No earlier one is in {cfg.save_dir}: {remedy} and start again."
    return (
        f"{said}The newest valid one is {chosen.path} ({chosen.updates} updates): {remedy}; "
        f"{command_to_resume(cfg)} then resumes from it."
    )


REPLACED = (
    (checkpoint_utils, "torch_persistent_save", _with_checksum),
    (checkpoint_utils, "save_checkpoint", _explained),
)
