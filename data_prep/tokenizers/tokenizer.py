"""The base class of tokenizers, which also divides very long lines."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.text import LONGEST_WORD, last_blank

Ids = npt.NDArray[np.int64]
"""Ids of fairseq's dictionary, shape (tokens,)."""

# The tokenizer libraries need hundreds of bytes of memory per character, too much for a line of 50 MB. Longer lines are
# divided at a space before a word. This does not change the tokens, because no token extends across such a place.
LONG = 200_000
_BLANK = re.compile(r" (?=\S)")


class Tokenizer(ABC):
    """Text to fairseq's ids and back."""

    kind: ClassVar[str]

    def __init__(self, files: tuple[Path, ...], symbols: int) -> None:
        """Args:
        files: the files of the tokenizer, including dict.txt, in one folder.
        symbols: number of symbols in fairseq's dictionary, without <mask>.
        """
        self.files = files
        self._symbols = symbols

    def __len__(self) -> int:
        """Size of fairseq's dictionary, without <mask>."""
        return self._symbols

    def encode(self, text: str) -> Ids:
        """Ids of one line, without <s> and </s>.

        Raises:
            UserError: a "word" of more than a million characters.
        """
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[Ids]:
        """Ids of each line; faster than `encode` for many lines.

        Raises:
            UserError: a "word" of more than a million characters.
        """
        if all(len(line) <= LONG for line in lines):
            return self._encode(lines)
        return [np.concatenate(list(self.encode_pieces(line))) for line in lines]

    def encode_pieces(self, line: str) -> Iterator[Ids]:
        """Ids of one line, piece by piece, because the ids of a very long line need much memory.

        Raises:
            UserError: a "word" of more than a million characters.
        """
        for piece in self._cut(line) if len(line) > LONG else [line]:
            yield self._encode([piece])[0]

    @abstractmethod
    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text of ids without special symbols; bytes that are not UTF-8 become U+FFFD."""

    def describe(self) -> dict[str, object]:
        """The description for manifests: kind, number of symbols, SHA-256 of each file."""
        return {"kind": self.kind, "symbols": len(self), "sha256": {path.name: sha256(path) for path in self.files}}

    @abstractmethod
    def _encode(self, lines: Sequence[str]) -> list[Ids]:
        """Ids of lines of at most `LONG` characters."""

    @abstractmethod
    def _continue(self, text: str) -> str:
        """The text to encode for ``text``, which follows a space in the line, so that the ids include one space."""

    def _cut(self, line: str) -> Iterator[str]:
        start = 0
        while len(line) - start > LONG:
            end = last_blank(line, start + 1, start + LONG)
            if end is None:
                blank = _BLANK.search(line, start + LONG)
                end = blank.start() if blank else len(line)
            if end - start > LONGEST_WORD:
                raise UserError(
                    f"{end - start:,} characters without a blank between words, at most {LONGEST_WORD:,} are taken for "
                    f"text; they begin with {line[start : start + 60]!r}"
                )
            yield self._continue(line[start:end]) if start else line[:end]
            start = end + 1
        if start < len(line):
            yield self._continue(line[start:]) if start else line
