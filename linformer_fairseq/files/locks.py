"""Locks between processes.

The operating system's own (flock): it lets go of them when a process ends, even one that is killed. ``filelock`` uses
them too, but needs a file that stays behind, where here a finished folder and the file of all results are locked
themselves; and it would be one more dependency of the data preparation.
"""

import errno
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from weakref import WeakSet, finalize

from linformer_fairseq.files.errors import UserError

logger = logging.getLogger(__name__)

_HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EACCES)


class Lock:
    """Holds a file or a folder from its making until `release`, the end of a ``with``, or the end of the process."""

    def __init__(self, path: Path, *, wait: bool = False, sign: bool = False) -> None:
        """Take the lock.

        Where the file system has no locks, as with some network file systems, a warning is logged and there is none.

        Args:
            path: a folder; or a file, which is made where there is none.
            wait: until whoever holds it lets go.
            sign: write into the file which process holds it, for the error of the next one.

        Raises:
            UserError: another process holds it; the text names the folder.
            OSError: it cannot be opened.
        """
        flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_APPEND
        while True:
            descriptor = os.open(path, flags, 0o666)
            self._close = finalize(self, _let_go, descriptor)
            _held.add(self)
            try:
                _lock(descriptor, path, wait, sign)
                if _is_at(path, descriptor):
                    break
            except BaseException:
                self.release()
                raise
            self.release()  # the file was replaced while this process waited for it
        if sign:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode())

    def release(self) -> None:
        """Let go; a second call changes nothing."""
        self._close()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _lock(descriptor: int, path: Path, wait: bool, signed: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD_BY_ANOTHER:
            logger.warning("%s: no lock (%s): nothing hinders a second process there", path, error.strerror)
            return
        folder = path if path.is_dir() else path.parent
        holder = f" ({path.read_text()})" if signed else ""
        raise UserError(
            f"{folder}: another process is writing to this folder{holder}; wait until it has ended, or choose another "
            "folder"
        ) from None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


_held: WeakSet[Lock] = WeakSet()


def _let_go(descriptor: int) -> None:
    # Closing it is not enough where a process that was started meanwhile has inherited it.
    with suppress(OSError):  # of file systems without locks
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _close_all() -> None:
    """In a forked process: close them without unlocking, which would be for the parent, too."""
    for lock in _held:
        if pending := lock._close.detach():
            os.close(pending[2][0])


os.register_at_fork(after_in_child=_close_all)
