"""The work of a worker process: encoding one part of a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.binarizing.parts import Part
from data_prep.tokenizers import Tokenizer, load_tokenizer
from data_prep.tokenizers.tokenizer import LONG
from linformer_fairseq.files.dictionary import EOS, UNK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import element_type
from linformer_fairseq.files.text import not_utf8, zero_byte

_BATCH = 1 << 20
"""Bytes of text that are encoded at a time."""
_CLEAN = "build the corpus with --errors replace"

_tokenizer: Tokenizer | None = None


@dataclass(frozen=True)
class Encoded:
    """The items of a part."""

    tokens: npt.NDArray[np.generic]
    """The concatenated items, each with its </s>, shape (tokens,)."""
    sizes: npt.NDArray[np.int32]
    """Number of tokens of each item, shape (items,)."""
    unknown: int
    """Number of <unk> tokens."""


def start_worker(folder: Path) -> None:
    """Load the tokenizer of this process."""
    global _tokenizer
    _tokenizer = load_tokenizer(folder)


def encode_part(part: Part) -> Encoded:
    """One item per line: its ids and </s>. White space at the ends of a line is not part of it, as in fairseq's own
    encoders; a line of nothing else separates documents. A line of characters that the tokenizer leaves out has no
    item, because </s> alone would separate documents.

    Raises:
        UserError: the text is not UTF-8, or has a zero byte (with its offset), or the tokenizer rejects a line.
    """
    tokenizer = _tokenizer
    assert tokenizer is not None, "start_worker comes first"
    dtype = element_type(len(tokenizer))
    tokens: list[npt.NDArray[np.generic]] = []
    sizes: list[npt.NDArray[np.int32]] = []
    unknown = 0
    for offset, lines in _batches(part):
        try:
            encoded = _encode(tokenizer, lines, dtype)
        except UserError as error:
            raise UserError(f"{part.path}, in the lines from byte {offset:,} on: {error}") from None
        encoded = [ids for ids, line in zip(encoded, lines, strict=True) if len(ids) or not line]
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int32)
        joined = np.concatenate([np.empty(0, dtype), *encoded])
        unknown += int(np.count_nonzero(joined == UNK))
        # </s> behind every item.
        tokens.append(np.insert(joined.astype(dtype, copy=False), np.cumsum(lengths), EOS))
        sizes.append(lengths + 1)
    # A single array is not copied: it may be a very long line.
    whole = tokens[0] if len(tokens) == 1 else np.concatenate(tokens)
    return Encoded(whole, np.concatenate(sizes), unknown)


def _encode(tokenizer: Tokenizer, lines: list[str], dtype: np.dtype[np.generic]) -> Sequence[npt.NDArray[np.generic]]:
    if all(len(line) <= LONG for line in lines):
        return tokenizer.encode_lines(lines)
    return [np.concatenate([ids.astype(dtype) for ids in tokenizer.encode_pieces(line)]) for line in lines]


def _batches(part: Part) -> Iterator[tuple[int, list[str]]]:
    """Batches of lines, without white space at their ends, with the offset of the first line."""
    with part.path.open("rb") as stream:
        offset = stream.seek(part.start)
        while offset < part.end:
            block = stream.read(min(_BATCH, part.end - offset))
            block += stream.readline() if not block.endswith(b"\n") else b""
            if not block:
                raise UserError(f"{part.path}: the file became shorter while it was read")
            following, lines = offset + len(block), _lines(part.path, offset, block)
            del block  # saves memory if it is a very long line
            yield offset, lines
            offset = following


def _lines(path: Path, offset: int, block: bytes) -> list[str]:
    if (zero := block.find(0)) >= 0:
        raise zero_byte(path, _line_number(path, offset + zero), offset + zero, _CLEAN)
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise not_utf8(path, _line_number(path, place), block[error.start], place, _CLEAN) from None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.strip() for line in lines]


def _line_number(path: Path, place: int) -> int:
    """The number, from 1, of the line that contains byte ``place``."""
    number = 1
    with path.open("rb") as stream:
        while place > 0 and (block := stream.read(min(_BATCH, place))):
            number += block.count(b"\n")
            place -= len(block)
    return number
