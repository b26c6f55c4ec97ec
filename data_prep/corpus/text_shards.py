"""The text of a corpus on disk: numbered files of documents, one paragraph a line, an empty line between documents."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from linformer_fairseq.files.errors import UserError

_MOST = 100_000
"""Files of a split; their names have five digits."""


class ShardWriter:
    """Appends documents to ``folder``/00000.txt, 00001.txt and so on.

    What was written up to a ``save()`` can be returned to by another process: ``ShardWriter(folder, limit, saved)``.
    """

    def __init__(self, folder: Path, limit: int, saved: dict[str, int] | None = None) -> None:
        """Args:
        folder: made where missing.
        limit: bytes after which the next document begins a new file.
        saved: what ``save()`` returned; what was written after it is removed.
        """
        self._folder, self._limit = folder, limit
        self._number, self._size = (saved["number"], saved["size"]) if saved else (0, 0)
        folder.mkdir(parents=True, exist_ok=True)
        for path in shard_files(folder):
            if int(path.stem) > self._number or not saved:
                path.unlink()
        self._stream = self._open()
        self._stream.truncate(self._size)
        self._stream.seek(self._size)

    def _open(self) -> IO[bytes]:
        path = self._folder / f"{self._number:05}.txt"
        return path.open("r+b" if path.exists() else "wb")

    def add(self, paragraphs: Sequence[str]) -> int:
        """Append a document, and return its bytes.

        Raises:
            UserError: files too small for so much text.
        """
        if self._size >= self._limit:
            self.save()  # the file is not looked at again, nor brought to the disk later
            self._stream.close()
            self._number, self._size = self._number + 1, 0
            if self._number == _MOST:
                raise UserError(f"--shard-bytes {self._limit}: makes more than {_MOST:,} files; give more bytes")
            self._stream = self._open()
        text = ("\n" if self._size else "") + "\n".join(paragraphs) + "\n"
        self._size += (count := self._stream.write(text.encode("utf-8")))
        return count

    def save(self) -> dict[str, int]:
        """Make sure that everything is on the disk; returns where the next document will begin."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return {"number": self._number, "size": self._size}

    def close(self) -> None:
        """Close the file; a split without documents leaves nothing behind."""
        self._stream.close()
        if not self._size:
            (self._folder / f"{self._number:05}.txt").unlink()
            self._folder.rmdir()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.close()


def is_complete(folder: Path, saved: dict[str, int]) -> bool:
    """Whether the files hold at least what there was at a ``save()``."""
    if saved == {"number": 0, "size": 0}:
        return True
    files = shard_files(folder)
    return len(files) > saved["number"] and files[saved["number"]].stat().st_size >= saved["size"]


def shard_files(folder: Path) -> list[Path]:
    """The files of a split, in order."""
    return sorted(folder.glob("[0-9][0-9][0-9][0-9][0-9].txt"))
