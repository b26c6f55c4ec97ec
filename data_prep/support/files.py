"""Reading text with errors that say where, and writing files that are either whole or absent."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from data_prep.support.errors import DataError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def not_utf8(file: object, line: int, byte: int, offset: int, otherwise: str = "") -> DataError:
    """The error for a ``byte`` at ``offset`` in a file, in its ``line`` (from 1), with what else the user can do."""
    return DataError(
        f"{file}, line {line:,}: not UTF-8: byte 0x{byte:02x} at offset {offset:,}; convert the file, for example "
        f"with: iconv -f LATIN1 -t UTF-8{', or ' * bool(otherwise)}{otherwise}"
    )


def read_text(path: Path) -> str:
    """The whole of a UTF-8 file.

    Raises:
        DataError: the file is missing, is a folder, is empty or is not UTF-8 (with the byte offset).
    """
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path}: is a folder, a text file was expected")
    raw = path.read_bytes()
    if not raw.strip():
        raise DataError(f"{path}: the file is empty ({len(raw)} bytes)")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind a byte order mark; the user's editor does not.
        offset = error.start + (len(BYTE_ORDER_MARK) if raw.startswith(BYTE_ORDER_MARK) else 0)
        raise not_utf8(path, raw.count(b"\n", 0, offset) + 1, raw[offset], offset) from None


@contextmanager
def atomic_open(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open ``path`` for writing under a temporary name, renamed when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with temporary.open(mode, **text) as stream:  # type: ignore[call-overload]
            yield stream
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file in one go, under a temporary name first."""
    with atomic_open(path) as stream:
        stream.write(text)


def write_json(path: Path, value: object) -> None:
    """Write indented JSON with sorted keys, so that equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sync(folder: Path) -> None:
    """Bring everything in a folder to the disk."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems refuse it for folders
                os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
