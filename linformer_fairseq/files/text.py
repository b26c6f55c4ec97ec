"""Reading UTF-8 text, with errors that say where it is none."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from linformer_fairseq.files.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LONGEST_WORD = 1_000_000
"""Characters; what has no white space for longer than this is not text."""


def last_blank(text: str, start: int, end: int) -> int | None:
    """Where the last blank before a word begins, from ``start`` to below ``end``: no token extends across it."""
    while (at := text.rfind(" ", start, end)) >= 0:
        if not text[at + 1].isspace():
            return at
        end = at
    return None


def not_utf8(file: object, line: int, byte: int, offset: int, otherwise: str = "") -> UserError:
    """The error for a ``byte`` at ``offset`` in a file, in its ``line`` (from 1), with what else the user can do."""
    # Not LATIN1: in it, the bytes that are quotation marks and dashes in CP1252 are control characters.
    return UserError(
        f"{file}, line {line:,}: not UTF-8: byte 0x{byte:02x} at offset {offset:,}; convert the file, for example "
        f"with: iconv -f CP1252 -t UTF-8{', or ' * bool(otherwise)}{otherwise}"
    )


def zero_byte(file: object, line: int, offset: int, otherwise: str = "") -> UserError:
    """The error for a zero byte, which UTF-8 allows, but no text has; the arguments are those of `not_utf8`."""
    return UserError(
        f"{file}, line {line:,}: a zero byte at offset {offset:,}: binary data or UTF-16, expected UTF-8 text; convert "
        f"the file, for example with: iconv -f UTF-16LE -t UTF-8{', or ' * bool(otherwise)}{otherwise}"
    )


def refuse_utf16(file: object, beginning: bytes) -> None:
    """Raise UserError for a file that begins with the byte order mark of UTF-16."""
    if beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise UserError(f"{file}: is UTF-16, expected UTF-8; convert it, for example with iconv -f UTF-16 -t UTF-8")


def read_text(path: Path, *, mark: bool = True) -> str:
    """The whole of a UTF-8 file, without its byte order mark.

    Args:
        path: the file.
        mark: whether it may have one; not where fairseq reads the file, too, which does not expect it.

    Raises:
        UserError: the file is missing, is a folder, is empty, is not UTF-8 (with the byte offset), or has a byte order
            mark that it may not have.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.is_dir():
        raise UserError(f"{path}: is a folder, a text file was expected")
    raw = path.read_bytes()
    if not raw.strip():
        raise UserError(f"{path}: the file is empty ({len(raw)} bytes)")
    refuse_utf16(path, raw)
    if not mark and raw.startswith(BYTE_ORDER_MARK):
        raise UserError(
            f"{path}: begins with a byte order mark, which fairseq does not expect; save it "
            "without, for example with: tail -c +4 FILE > NEW"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind a byte order mark; the user's editor does not.
        offset = error.start + (len(BYTE_ORDER_MARK) if raw.startswith(BYTE_ORDER_MARK) else 0)
        raise not_utf8(path, raw.count(b"\n", 0, offset) + 1, raw[offset], offset) from None
