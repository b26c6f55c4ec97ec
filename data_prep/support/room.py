"""The error of a disk that is full."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from linformer_fairseq.files.errors import UserError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Name ``folder`` if the disk becomes full in the block: an error of writing names no file.

    Raises:
        UserError: it did.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        temporary = folder == temporary_files()
        other = ", or set TMPDIR to a folder with more of it," if temporary else ""
        raise UserError(f"{folder}: {error.strerror}; make room{other} and run the same command again") from None


def temporary_files() -> Path:
    """The folder for temporary files: the user's TMPDIR, otherwise the system's."""
    return Path(tempfile.gettempdir())
