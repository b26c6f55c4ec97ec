"""Divides streams into lines and blocks of lines of bounded size, and decodes them.

Lines end with ``\\n`` or ``\\r\\n``. Nothing else ends a line: U+0085, U+2028 and form feeds occur within paragraphs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from data_prep.sources.source import Errors
from data_prep.sources.streams import Readable
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.signatures import HEAD, kind_of
from linformer_fairseq.files.text import BYTE_ORDER_MARK, not_utf8, refuse_utf16, zero_byte

MAX_DOCUMENT_BYTES = 32 << 20
"""Default limit for the size of a document."""


@dataclass(frozen=True)
class Limits:
    """Sizes in which a stream is read."""

    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A longer document is an error: a missing separator must not fill the memory."""
    block_bytes: int = 1 << 20
    """So much is read at a time."""


class Piece(NamedTuple):
    """A run of bytes and where it stands in the decompressed stream."""

    data: bytes
    line: int
    """Number of its first line, from 1."""
    offset: int
    """Offset of its first byte."""


def too_long(name: str, line: int, limit: int) -> UserError:
    """The error of a document over the limit that begins in ``line``."""
    return UserError(
        f"{name}, line {line}: the document that begins here is longer than {limit:,} bytes; put a blank line between "
        "documents (or one record a line), or raise --max-document-bytes if it really is one"
    )


def line_pieces(stream: Readable, name: str, limits: Limits, errors: Errors) -> Iterator[Piece]:
    """Runs of whole lines, each with its ``\\n``; one is added to the last line where it has none.

    Raises:
        UserError: a line over the limit, zero bytes, or content of another kind.
    """
    rest: list[bytes] = []
    held = 0  # bytes in rest: the beginning of a line
    line, offset = 1, 0
    block = stream.read(max(HEAD, limits.block_bytes))
    refuse_utf16(name, block)
    kind = kind_of(block[:HEAD])
    if kind:
        raise UserError(f"{name}: its content is {kind}, plain text was expected; convert it first")
    if block.startswith(BYTE_ORDER_MARK):
        block, offset = block[3:], 3
    while block:
        if errors == "strict" and (found := block.find(b"\0")) >= 0:
            before = line + block.count(b"\n", 0, found)
            raise zero_byte(name, before, offset + held + found, "put U+FFFD in its place with --errors replace")
        cut = block.rfind(b"\n") + 1
        if cut:
            data = b"".join([*rest, block[:cut]]) if rest else block[:cut]
            yield Piece(data, line, offset)
            line += data.count(b"\n")
            offset += len(data)
            rest, held = [block[cut:]], len(block) - cut
        else:
            rest.append(block)
            held += len(block)
        if held > limits.max_document_bytes + len(b"\r"):
            raise too_long(name, line, limits.max_document_bytes)
        block = stream.read(limits.block_bytes)
    if held:
        yield Piece(b"".join([*rest, b"\n"]), line, offset)


def cut_blocks(
    pieces: Iterator[Piece], separator: re.Pattern[bytes], name: str, limit: int
) -> Iterator[tuple[Piece, bool]]:
    """What stands between matches of ``separator``, empty blocks left out.

    Args:
        pieces: runs of whole lines.
        separator: begins with the ``\\n`` of the line before it and ends with the ``\\n`` of its own last line.
        name: of the file, for messages.
        limit: bytes of a block.

    Yields:
        The block without its last line end, and whether a separator followed it (not so at the end of the file).

    Raises:
        UserError: a block over the limit, to which the end of its last line does not count.
    """
    pending: list[bytes] = []
    held, first_line, first_offset = 0, 1, 0
    for piece in pieces:
        # The line end before the piece, so that a separator at its very beginning is found too.
        data = b"\n" + piece.data
        position, line = 1, piece.line
        for match in separator.finditer(data):
            end = max(position, match.start())
            if pending:
                block = b"".join([*pending, data[position:end]])
                pending, held = [], 0
            else:
                block, first_line, first_offset = data[position:end], line, piece.offset + position - 1
            if block:
                yield _whole(Piece(block.rstrip(b"\r\n"), first_line, first_offset), name, limit), True
            line += data.count(b"\n", position, match.end())
            position = match.end()
        if position < len(data):
            if not pending:
                first_line, first_offset = line, piece.offset + position - 1
            pending.append(data[position:])
            held += len(data) - position
            if held > limit + len(b"\r\n"):
                raise too_long(name, first_line, limit)
    if pending:
        yield _whole(Piece(b"".join(pending).rstrip(b"\r\n"), first_line, first_offset), name, limit), False


def _whole(block: Piece, name: str, limit: int) -> Piece:
    """Raises:
    UserError: the block is over the limit.
    """
    if len(block.data) > limit:
        raise too_long(name, block.line, limit)
    return block


def decode(piece: Piece, name: str, errors: Errors) -> tuple[str, bool]:
    """The text of ``piece`` with ``\\n`` as its only line end, and whether bytes were replaced.

    Raises:
        UserError: not UTF-8, with ``errors="strict"``.
    """
    replaced = False
    try:
        text = piece.data.decode()
    except UnicodeDecodeError as error:
        if errors == "strict":
            line = piece.line + piece.data.count(b"\n", 0, error.start)
            byte, offset = piece.data[error.start], piece.offset + error.start
            raise not_utf8(
                name, line, byte, offset, "put U+FFFD in place of such bytes with --errors replace"
            ) from None
        text, replaced = piece.data.decode(errors="replace"), True
    if "\0" in text:  # with errors="replace" only: line_pieces refuses them otherwise
        text, replaced = text.replace("\0", "\ufffd"), True
    return (text.replace("\r\n", "\n") if "\r" in text else text), replaced
