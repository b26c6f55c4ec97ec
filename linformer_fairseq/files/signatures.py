"""Detects file types by file name extension and by the first bytes."""

from pathlib import Path

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
"""File name extensions of compressed files, with the names of the formats."""

# The first bytes of each file type. Text does not begin with any of these.
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
_SKIPPABLE = b"\x2a\x4d\x18"
"""After a byte of 0x50 to 0x5f: a frame of Zstandard without text, with which some programs' files begin (RFC 8878)."""
HEAD = 8
"""Number of bytes that :func:`kind_of` needs."""


def compression_of(path: Path) -> str | None:
    """The compression according to the file name extension."""
    return COMPRESSIONS.get(path.suffix.lower())


def kind_of(head: bytes) -> str | None:
    """The file type according to the first bytes; None for text and unknown types."""
    # A text could begin with "BZh", but not with the magic number of a block or of the end of the stream after it.
    if head.startswith(b"BZh") and head[4:8] not in (b"1AY&", b"\x17rE8"):
        return None
    if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
        return "Zstandard"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
