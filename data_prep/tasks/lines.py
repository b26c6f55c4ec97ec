"""Reads the lines of a TSV file, decoded one by one for precise error messages, without quoting."""

from collections.abc import Iterator
from typing import IO

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import BYTE_ORDER_MARK, not_utf8, refuse_utf16, zero_byte

MAX_LINE = 16 * 2**20
"""Bytes without the line's end; the longest row of the official files has less than 5,000."""


def decode(raw: bytes, file: str, errors: str, line: int = 1, offset: int = 0) -> str:
    """Text of a line or of a small file.

    Args:
        raw: the bytes.
        file: its name, for the message.
        errors: "strict" or "replace" (invalid bytes become U+FFFD).
        line: the number of its first line in the file.
        offset: where ``raw`` begins in the file.

    Raises:
        UserError: not UTF-8, or holds a zero byte, as no text does.
    """
    if not offset:
        refuse_utf16(file, raw)
    zero = raw.find(0)
    if zero >= 0:
        where = line + raw.count(b"\n", 0, zero)
        raise zero_byte(file, where, offset + zero)
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        where = line + raw.count(b"\n", 0, error.start)
        raise not_utf8(
            file, where, raw[error.start], offset + error.start, "put U+FFFD there with --errors replace"
        ) from None


def read_lines(stream: IO[bytes], file: str, errors: str) -> Iterator[tuple[int, str]]:
    r"""(number, line without its end) for every line; LF and CRLF end a line, nothing else does.

    Raises:
        UserError: empty, not UTF-8, binary, or a line beyond any sense.
    """
    number = offset = 0
    while raw := stream.readline(MAX_LINE + len(b"\r\n")):
        number += 1
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_LINE:
            raise UserError(f"{file}, line {number}: longer than {MAX_LINE:,} bytes; is this a table at all?")
        start = len(BYTE_ORDER_MARK) if number == 1 and line.startswith(BYTE_ORDER_MARK) else 0
        yield number, decode(line[start:], file, errors, number, offset + start)
        offset += len(raw)
    if not number:
        raise UserError(f"{file}: the file is empty")
