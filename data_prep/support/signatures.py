"""What a file is, by the ending of its name and by its first bytes."""

from pathlib import Path

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


def compression_of(path: Path) -> str | None:
    """The compression that the name's ending announces."""
    return COMPRESSIONS.get(path.suffix.lower())


def kind_of(head: bytes) -> str | None:
    """What the first bytes of a file show it to be; None for text and the unknown."""
    # "BZh" could begin a text; the marks of a first block or of an end could not.
    if head.startswith(b"BZh") and head[4:8] not in (b"1AY&", b"\x17rE8"):
        return None
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
