"""Files as streams of bytes: decompresses, hashes, and checks that the content matches the file name."""

import bz2
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.signatures import compression_of

# Compressed bytes to a call: not all decompressors have another bound on what one call returns. 2 KiB of gzip make
# 2 MiB at the very worst, of Zstandard 64 MiB.
_PIECE = 1 << 11
# Bytes that a call returns of bzip2 and xz, of which 2 KiB could make gigabytes.
_MOST = 1 << 24
# Of xz; its strongest preset needs 65 MiB. zstandard has a bound of its own, 128 MiB.
_MAX_MEMORY = 256 << 20


def _zstandard() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_MEMORY),
    "Zstandard": _zstandard,
}


class Readable(Protocol):
    """A stream as the readers use it."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; empty at the end."""


class CountedFile(io.RawIOBase):
    """A file that counts and hashes what is read of it from beginning to end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()
        self.consumed = 0

    def readable(self) -> bool:
        """Return True: `io` asks this of a raw stream."""
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


class _Members:
    """Decompresses a file of one or more compressed members, one after the other.

    The standard library's own readers take what follows a member and is none for rubbish, and leave it out in silence;
    zstandard's does not notice a missing end. Both are errors here.
    """

    def __init__(self, source: Readable, compression: str) -> None:
        self._source = source
        self._new = _DECOMPRESSORS[compression]
        self._most = (_MOST,) if compression in ("bzip2", "xz") else ()
        self._member: Any = None
        self._input = b""
        self._output: list[bytes] = []
        self._available = 0

    def read(self, size: int = -1, /) -> bytes:
        while (size < 0 or self._available < size) and self._more():
            pass
        data = b"".join(self._output)
        rest = data[size:] if 0 <= size < len(data) else b""
        self._output, self._available = [rest], len(rest)
        return data[: len(data) - len(rest)]

    def _more(self) -> bool:
        """Decompress some more; false at the end of the file."""
        if self._most and self._member is not None and not self._member.needs_input:
            piece = b""  # it has more of the last piece
        else:
            piece = self._input or self._source.read(_PIECE)
            self._input = b""
            if not piece:
                if self._member is not None:
                    raise EOFError
                return False
        if self._member is None:
            piece = piece.lstrip(b"\0")  # padding, which gzip and xz allow for
            if not piece:
                return True
            self._member = self._new()
        data = self._member.decompress(piece, *self._most)
        if self._member.eof:
            self._input = self._member.unused_data
            self._member = None
        self._output.append(data)
        self._available += len(data)
        return True


class Stream:
    """The decompressed bytes of a file, with errors that say where."""

    def __init__(self, path: Path, name: str) -> None:
        """Open ``path``, called ``name`` in messages."""
        self._name = name
        self.file = CountedFile(path)
        self._compression = compression_of(path)
        buffered = io.BufferedReader(self.file, 1 << 17)
        self._stream: Readable = _Members(buffered, self._compression) if self._compression else buffered

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` decompressed bytes.

        Raises:
            UserError: the compressed file is cut off or damaged.
        """
        try:
            return self._stream.read(size)
        except EOFError:
            raise UserError(
                f"{self._name}: the {self._compression} file ends too early, after {self.file.consumed:,} bytes: it "
                "was not copied or written to its end; fetch or make it again"
            ) from None
        except Exception as error:
            if not self._is_damage(error):
                raise
            raise UserError(
                f"{self._name}: the {self._compression} file cannot be decompressed near byte {self.file.consumed:,} "
                f"of it ({error}): it is damaged, or needs uncommonly much memory; fetch or make it again"
            ) from None

    def _is_damage(self, error: Exception) -> bool:
        """Whether ``error`` is the decompressor's, and not the disk's."""
        if self._compression is None:
            return False
        if self._compression == "Zstandard":
            import zstandard

            if isinstance(error, zstandard.ZstdError):
                return True
        # bz2 raises OSErrors, which have no number.
        return isinstance(error, (zlib.error, lzma.LZMAError, ValueError)) or (
            isinstance(error, OSError) and error.errno is None
        )

    def close(self) -> None:
        """Close the file."""
        self.file.close()
