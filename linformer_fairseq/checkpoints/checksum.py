"""The checksum in a checkpoint file.

``torch.save`` writes a zip archive without a comment. Here the archive gets one: a tag and the SHA-256, in hexadecimal
digits, of every byte of the file before these digits. All readers of such files skip the comment, so ``torch.load`` and
``unzip`` read the file as before, and the checksum cannot be separated from its file.

Files of other programs have no such comment; for them, only the CRC-32 of each entry of the zip archive can be
verified, which does not cover the bytes between the entries.

:func:`check_bytes` also determines the kind of a checkpoint file, for all readers.
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

# The record at the end of a zip archive; its last field is the length of the comment that follows.
_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LONGEST_COMMENT = 0xFFFF
_FOLDER = 0x10
"""The bit of an entry's external attributes that marks a folder."""
# Files of torch.save before version 1.6: consecutive pickles, of which the first is this number.
_BEFORE_ZIP = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

_BLOCK = 4 * 1024 * 1024


class Bytes(Enum):
    """The result of checking the bytes of a file."""

    SOUND = "its checksum is right"
    NO_CHECKSUM = "no checksum; the CRCs of its zip archive are right"
    NOTHING = "no checksum and no CRCs (written by torch before 1.6)"
    RELEASED = "a released model, whose checksum is compared when it is read"
    DAMAGED = "damaged"


class ChecksumWriter:
    """A file object for ``torch.save`` that appends a checksum; call :meth:`finish` after saving.

    Only the last 22 bytes are buffered, and nothing is read again.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._end = b""
        self.failure: OSError | None = None
        """Why writing failed. torch reports it as "unexpected pos", without the reason."""

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes, as to any file."""
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
        """Do nothing: ``torch.save`` calls it, but the file is flushed when it is complete."""

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
    """Determine the kind of a file, and verify its checksum or, if it has none, its CRCs.

    It is read once, in blocks; of a released model, only the beginning is read.

    Args:
        file: path, or a seekable file open for reading; it is left at its beginning.

    Returns:
        the result, and the reason if the file is damaged (otherwise an empty string).

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
            if _digest(file, size - _DIGITS) != comment[-_DIGITS:]:
                return Bytes.DAMAGED, "its bytes do not match the SHA-256 stored in it"
            reason, sound = _bad_entry(file, crcs=False), Bytes.SOUND
        else:
            reason, sound = _bad_entry(file, crcs=True), Bytes.NO_CHECKSUM
        return (Bytes.DAMAGED, reason) if reason else (sound, "")
    finally:
        file.seek(0)


def _comment(file: BinaryIO, size: int) -> bytes | None:
    """Return the zip archive's comment; None if no archive ends exactly at the end of the file."""
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
    return Bytes.DAMAGED, "it does not begin and end like a file written by torch.save"


def _digest(file: BinaryIO, length: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (block := file.read(min(_BLOCK, length))):
        digest.update(block)
        length -= len(block)
    return digest.hexdigest().encode()


def _bad_entry(file: BinaryIO, crcs: bool) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            # torch.save compresses nothing; torch.load would reserve whatever size such an entry claims
            packed = next((info for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED), None)
            if packed is not None:
                return f"the entry {packed.filename!r} of its zip archive is compressed, as torch.save never does"
            # torch.load leaves the tensor of an entry that is marked as a folder uninitialized; zipfile reads its bytes
            folder = next((info for info in archive.infolist() if info.external_attr & _FOLDER), None)
            if folder is not None:
                return f"the entry {folder.filename!r} of its zip archive is marked as a folder"
            bad = archive.testzip() if crcs else None
    except OSError as error:
        # A wrong offset causes a seek to before the beginning. Any other error is the disk's.
        if error.errno not in (None, errno.EINVAL):
            raise
        return "its zip archive is broken (an entry before the beginning of the file)"
    except Exception as error:  # zipfile and its decompressors raise a dozen types for invalid files
        return f"its zip archive is broken ({' '.join(str(error).split()) or type(error).__name__})"
    return f"the CRC of {bad!r} in its zip archive is wrong" if bad else ""
