"""The error of a disk that is full."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from linformer_fairseq.files.errors import NO_ROOM, UserError


@contextmanager
def room_in(folder: Path, remedy: str = "make room") -> Iterator[None]:
    """Name ``folder`` if the disk becomes full in the block: an error of writing names no file.

    Raises:
        UserError: it did.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise UserError(f"{folder}: {error.strerror}; {remedy} and run the same command again") from None


def room_for_temporary_files() -> AbstractContextManager[None]:
    """The same for the folder of temporary files."""
    return room_in(Path(tempfile.gettempdir()), "make room, or set TMPDIR to a folder with more of it,")
