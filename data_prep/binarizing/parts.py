"""Divides text files into parts of a few megabytes, as byte offsets, without reading them completely.

A part ends before the empty line after a document. If the document is too long, the part ends at the end of a line. The
parts depend only on the files and the requested size.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from data_prep.support.white_space import BEGUN, BLANK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import BYTE_ORDER_MARK

_BLOCK = 1 << 16
_EMPTY_LINE = re.compile(rb"\n%b\n" % BLANK)
"""A line without text, including the line feed at the end of the previous line."""
_BEGUN = re.compile(rb"\n%b\Z" % BEGUN)
"""What may be the beginning of one."""
DOCUMENT_SEARCH = 1 << 20
"""Number of bytes beyond the requested size in which the end of a document is searched."""


@dataclass(frozen=True)
class Part:
    """Bytes ``start`` to ``end`` of a file, which are whole lines."""

    path: Path
    start: int
    end: int
    continues: bool
    """Whether it begins where the part before it ends, without an empty line between them, so that it usually begins
    within a document."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.start


def cut(path: Path, wanted: int) -> Iterator[Part]:
    """The parts of a file, of ``wanted`` bytes or slightly more each.

    Raises:
        UserError: the file does not exist, or contains no text.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file")
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = len(BYTE_ORDER_MARK) if stream.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
        if not _has_text(stream, start):
            raise UserError(f"{path}: there is no text in it ({size:,} bytes); was its download or copy cut off?")
        continues = False
        while start < size:
            end, following = _border(stream, start + wanted, size)
            yield Part(path, start, end, continues)
            start, continues = following, following == end


def _has_text(stream: BinaryIO, start: int) -> bool:
    stream.seek(start)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while block := stream.read(_BLOCK):
        if decoder.decode(block).strip():
            return True
    return False


def _border(stream: BinaryIO, wanted: int, size: int) -> tuple[int, int]:
    """The end of the part that should end at ``wanted``, and the beginning of the next part."""
    line_end = -1
    position = wanted - 1  # the wanted place may be just behind the end of a line
    previous = b""
    while wanted < size:
        stream.seek(position)
        block = stream.read(_BLOCK)
        if not block:
            break
        text = previous + block
        first = position - len(previous)
        if found := _EMPTY_LINE.search(text):
            # The file's last line may be an empty one, which then belongs to this part.
            return (first + found.start() + 1, first + found.end()) if first + found.end() < size else (size, size)
        if line_end < 0 and (place := text.find(b"\n")) >= 0:
            line_end = first + place + 1
        position += len(block)
        if line_end >= 0 and position - wanted >= DOCUMENT_SEARCH:
            return line_end, line_end
        begun = _BEGUN.search(text)
        previous = begun.group() if begun else b""
    return size, size
