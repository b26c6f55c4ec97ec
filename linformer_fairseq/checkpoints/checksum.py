"""The checksum that a checkpoint carries.

``torch.save`` writes a zip archive without a comment. Here the archive gets one: a tag and the SHA-256, in
hexadecimal digits, of every byte of the file before these digits. All readers of such files skip the comment, so
the file stays what it was for ``torch.load`` and ``unzip``, and a checksum cannot be parted from its file.

Files of other programs have no such comment; of them only the zip archive's own CRC-32 of each entry can be
checked, which does not cover the bytes between the entries.

:func:`check_bytes` is also where the kinds of checkpoint files are told apart: readers ask it, and nothing else.
"""

import errno
import hashlib
import os
import struct
import zipfile
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from linformer_fairseq.checkpoints.released_file import is_released

_TAG = b"linformer-fairseq sha256 "
_DIGITS = hashlib.sha256().digest_size * 2
_COMMENT = len(_TAG) + _DIGITS

# The record that ends a zip archive; its last field is the length of the comment behind it.
_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LONGEST_COMMENT = 0xFFFF
# What torch.save wrote before version 1.6: pickles one behind the other, the first of them this number.
_BEFORE_ZIP = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

_BLOCK = 4 * 1024 * 1024


class Bytes(Enum):
    """What the bytes of a file say about themselves."""

    SOUND = "its checksum is right"
    NO_CHECKSUM = "no checksum; the CRCs of its zip archive are right"
    NOTHING = "no checksum and no CRCs (written by torch before 1.6)"
    RELEASED = "a released model, whose checksum is compared when it is read"
    DAMAGED = "damaged"


class ChecksumWriter:
    """A file for ``torch.save`` that ends with its own checksum; call :meth:`finish` after saving.

    Nothing is held back but the last 22 bytes, and nothing is read again.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._end = b""
        self.failure: OSError | None = None
        """Why writing failed. torch reports it as "unexpected pos", without the reason."""

    def write(self, data: bytes | memoryview) -> int:
        """Take bytes as any file does."""
        view = memoryview(data).cast("B")
        if len(view) >= _END.size:
            self._emit(self._end)
            self._emit(view[: -_END.size])
            self._end = bytes(view[-_END.size :])
        else:
            both = self._end + bytes(view)
            kept = max(0, len(both) - _END.size)
            self._emit(both[:kept])
            self._end = both[kept:]
        return len(view)

    def flush(self) -> None:
        """Do nothing: ``torch.save`` asks for it, but the file is flushed when it is whole."""

    def finish(self) -> None:
        """Write the archive's last record with the checksum as its comment."""
        assert self._end.startswith(_END_SIGNATURE) and self._end.endswith(b"\0\0"), "torch.save wrote no plain zip"
        self._emit(self._end[:-2] + struct.pack("<H", _COMMENT) + _TAG)
        self._file.write(self._hash.hexdigest().encode())

    def _emit(self, data: bytes | memoryview) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            self.failure = error
            raise
        self._hash.update(data)


def check_bytes(file: Path | BinaryIO) -> tuple[Bytes, str]:
    """Say of which kind a file is, and compare its checksum or, where it has none, the CRCs in it.

    It is read once, in blocks; of a released model only the beginning is.

    Args:
        file: path, or a seekable file open for reading; it is left at its beginning.

    Returns:
        what was found, and the reason where it is damaged (otherwise an empty text).

    Raises:
        OSError: if it cannot be read.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return check_bytes(opened)
    try:
        if is_released(file):
            return Bytes.RELEASED, ""
        size = file.seek(0, os.SEEK_END)
        comment = _comment(file, size)
        if comment is None:
            return _without_end(file, size)
        if len(comment) == _COMMENT:
            found = _digest(file, size - _DIGITS)
            if found == comment[-_DIGITS:]:
                return Bytes.SOUND, ""
            return Bytes.DAMAGED, "its bytes do not give the SHA-256 that stands in it"
        reason = _bad_entry(file)
        return (Bytes.DAMAGED, reason) if reason else (Bytes.NO_CHECKSUM, "")
    finally:
        file.seek(0)


def _comment(file: BinaryIO, size: int) -> bytes | None:
    """Return the zip archive's comment; None where no archive ends exactly at the end of the file."""
    start = max(0, size - _END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = len(tail)
    while (at := tail.rfind(_END_SIGNATURE, 0, at)) >= 0:
        comment = tail[at + _END.size :]
        if at + _END.size <= len(tail) and _END.unpack_from(tail, at)[-1] == len(comment):
            return comment
    return None


def _without_end(file: BinaryIO, size: int) -> tuple[Bytes, str]:
    if size == 0:
        return Bytes.DAMAGED, "it is empty"
    file.seek(0)
    start = file.read(len(_BEFORE_ZIP))
    if start == _BEFORE_ZIP:
        return Bytes.NOTHING, ""
    if start.startswith(b"PK"):
        return Bytes.DAMAGED, "it is truncated, or something was appended to it"
    return Bytes.DAMAGED, "it does not begin and end as torch.save writes files"


def _digest(file: BinaryIO, length: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (block := file.read(min(_BLOCK, length))):
        digest.update(block)
        length -= len(block)
    return digest.hexdigest().encode()


def _bad_entry(file: BinaryIO) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
    except OSError as error:
        # What a wrong offset gives: a seek to before the beginning. Anything else is the disk's.
        if error.errno not in (None, errno.EINVAL):
            raise
        return "its zip archive is broken (an entry before the beginning of the file)"
    except Exception as error:  # zipfile and its decompressors raise a dozen types for what they did not write
        return f"its zip archive is broken ({' '.join(str(error).split()) or type(error).__name__})"
    return f"the CRC of {bad!r} in its zip archive is wrong" if bad else ""
