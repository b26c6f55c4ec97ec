"""Files as streams of bytes: decompressed, hashed on the way, and checked to be what their names say."""

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, Protocol

from data_prep.errors import DataError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
"""Name endings of compressed files, and what they are called."""

# What a file of each kind begins with. Text of a corpus begins with none of these.
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "parquet"),
    (b"%PDF-", "PDF"),
    (b"7z\xbc\xaf\x27\x1c", "7-zip"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
HEAD = 8
"""Bytes that :func:`kind_of` looks at."""

# One piece of compressed input per call: 2 KiB of Zstandard make 64 MiB at the very worst, and zstandard's
# decompressobj has no other bound on what one call returns.
_ZSTANDARD_PIECE = 1 << 11


class Readable(Protocol):
    """What the readers need of a stream."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; empty at the end."""


def compression_of(path: Path) -> str | None:
    """The compression that the name's ending announces."""
    return COMPRESSIONS.get(path.suffix.lower())


def kind_of(head: bytes) -> str | None:
    """What the first bytes of a file show it to be; None for text and the unknown."""
    # "BZh" could begin a text; the digit of the block size and the magic of the first block could not.
    if head.startswith(b"BZh") and not (head[3:4].isdigit() and head[4:5] in (b"1", b"\x17")):
        return None
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


class CountedFile(io.RawIOBase):
    """A file that counts and hashes what is read of it from beginning to end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()
        self.consumed = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` with the next bytes; returns how many."""
        count = self._file.readinto(buffer)
        self._hash.update(memoryview(buffer)[:count])
        self.consumed += count
        return count

    def digest(self) -> str:
        """sha256 of what was read so far."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()


class _ZstandardReader:
    """Decompresses frame after frame; unlike zstandard's own reader it notices a missing end."""

    def __init__(self, source: Readable) -> None:
        import zstandard

        self._source = source
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._input = b""
        self._output: list[bytes] = []
        self._available = 0

    def read(self, size: int = -1, /) -> bytes:
        while self._available < size and self._more():
            pass
        data = b"".join(self._output)
        self._output = [data[size:]] if len(data) > size else []
        self._available = max(0, len(data) - size)
        return data[:size]

    def _more(self) -> bool:
        piece = self._input or self._source.read(_ZSTANDARD_PIECE)
        if not piece:
            if self._frame is not None:
                raise EOFError
            return False
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        data = self._frame.decompress(piece)
        self._input = b""
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame = None
        self._output.append(data)
        self._available += len(data)
        return True


def _decompressed(file: io.BufferedReader, compression: str | None) -> Readable:
    """What ``file`` decompresses to, however many members it was put together from."""
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if compression == "bzip2":
        return bz2.BZ2File(file)
    if compression == "xz":
        return lzma.LZMAFile(file)
    return _ZstandardReader(file) if compression else file


class Stream:
    """The decompressed bytes of a file, with errors that say where."""

    def __init__(self, path: Path, name: str) -> None:
        """Open ``path``, called ``name`` in messages."""
        self._name = name
        self.file = CountedFile(path)
        self._compression = compression_of(path)
        self._stream = _decompressed(io.BufferedReader(self.file, 1 << 17), self._compression)

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` decompressed bytes.

        Raises:
            DataError: the compressed file is cut off or damaged.
        """
        try:
            return self._stream.read(size)
        except EOFError:
            raise DataError(
                f"{self._name}: the {self._compression} file ends too early, after {self.file.consumed:,} bytes: it "
                "was not copied or written to its end; fetch or make it again"
            ) from None
        except Exception as error:
            if not self._is_damage(error):
                raise
            raise DataError(
                f"{self._name}: damaged {self._compression} file, near byte {self.file.consumed:,} of it ({error}); "
                "fetch or make it again"
            ) from None

    def _is_damage(self, error: Exception) -> bool:
        """Whether ``error`` is the decompressor's, and not the disk's."""
        if self._compression is None:
            return False
        if self._compression == "Zstandard":
            import zstandard

            if isinstance(error, zstandard.ZstdError):
                return True
        # gzip and bz2 raise OSErrors of their own, which have no number.
        return isinstance(error, (zlib.error, lzma.LZMAError, ValueError)) or (
            isinstance(error, OSError) and error.errno is None
        )

    def close(self) -> None:
        """Close the file."""
        self.file.close()
