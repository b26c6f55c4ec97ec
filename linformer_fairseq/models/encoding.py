"""Texts to token ids for prediction, in bounded time and memory whatever the text; tokens as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.dictionary import MASK
from linformer_fairseq.files.text import last_blank

_PIECE = 10_000
"""Characters that are encoded at a time. Tokenizers need hundreds of bytes per character, and fairseq's GPT-2 BPE time
that grows with the square of the longest word."""
_CACHED_WORDS = 200_000
_BLANK = "\u2581"  # sentencepiece's symbol for a space
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""sentencepiece's piece for a byte of a character that has no piece."""
_ANCHOR = "\ue000"  # private-use character: no piece of a vocabulary contains it together with another character


class TextEncoder:
    """Encodes texts as data preparation does, without special tokens.

    Args:
        bpe: fairseq's tokenizer.
        dictionary: of the model's input.
    """

    def __init__(self, bpe: Any, dictionary: Dictionary) -> None:
        self._bpe = bpe
        self._indices = dictionary.indices
        self._unknown = dictionary.unk()

    def __call__(self, text: str, at_most: int | None = None) -> Ids:
        """The ids of a text, (T,).

        Args:
            text: the text. It is divided at spaces if it is long, which can change tokens only where several ways to
                divide a word are equally probable, as in runs of one sign; a word of more than 10,000 characters is
                divided, too.
            at_most: stop after so many ids, or some more; None: the whole text.

        Raises:
            ValueError: as for `pieces`.
        """
        found: list[Ids] = []
        count = 0
        for symbols in _in_parts(text, self._bpe):
            found.append(np.array([self._indices.get(symbol, self._unknown) for symbol in symbols], dtype=np.int64))
            count += len(symbols)
            if at_most is not None and count >= at_most:
                break
        return np.concatenate(found)


def _in_parts(text: str, bpe: Any, follows: bool = False) -> Iterator[list[str]]:
    """The pieces of a text, some thousand characters at a time.

    Args:
        text: the text.
        bpe: fairseq's tokenizer.
        follows: whether it stands behind something, so that no space is added before it.
    """
    start = 0
    while True:
        end = _end_of_piece(text, start)
        part = text[start:end]
        yield _pieces_after(part, bpe) if follows or start else pieces(part, bpe)
        _forget_words(bpe)
        start = end
        if start >= len(text):
            return


def _forget_words(bpe: Any) -> None:
    """Bound the cache of fairseq's GPT-2 BPE, which otherwise keeps every word that it has seen."""
    cache = getattr(getattr(bpe, "bpe", None), "cache", None)
    if cache is not None and len(cache) > _CACHED_WORDS:
        cache.clear()


def masked_pieces(text: str, bpe: Any, at_most: int | None = None) -> list[str]:
    """The pieces of a text in which every ``<mask>`` is the mask.

    A space before a mask belongs to the token in its place. After one, no space is added, which sentencepiece does
    before every text.

    Args:
        text: the text; a word of more than 10,000 characters is divided.
        bpe: fairseq's tokenizer.
        at_most: stop after so many pieces, or some more; None: the whole text.

    Raises:
        ValueError: as for `pieces`.
    """
    found: list[str] = []
    for number, part in enumerate(text.split(MASK)):
        found += [MASK] * (number > 0)
        for symbols in _in_parts(part.rstrip(), bpe, follows=number > 0):
            found += symbols
            if at_most is not None and len(found) >= at_most:
                return found
    return found


def pieces(text: str, bpe: Any) -> list[str]:
    """The pieces of a text.

    Args:
        text: the text.
        bpe: fairseq's tokenizer; None if the model was loaded without one.

    Raises:
        ValueError: as for `require_tokenizer`, or the text has half of a surrogate pair, which is no character.
    """
    require_tokenizer(bpe)
    require_characters(text)
    # Not at any white space: U+0085, for example, is a piece of its own.
    return [piece for piece in str(bpe.encode(text)).split(" ") if piece]


def require_characters(text: str) -> None:
    """Raise if a text cannot be written, which no tokenizer takes.

    Raises:
        ValueError: it has half of a surrogate pair, which is no character.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start]!r} at character {error.start:,} is half of a surrogate pair") from None


def require_tokenizer(bpe: Any) -> None:
    """Raise if a model was loaded without a tokenizer.

    Raises:
        ValueError: it was.
    """
    if bpe is None:
        raise ValueError("the model was loaded without a tokenizer (bpe=None), so it takes token ids only")


def _pieces_after(text: str, bpe: Any) -> list[str]:
    if not isinstance(bpe, SentencepieceBPE):
        return pieces(text, bpe)
    anchor, found = pieces(_ANCHOR, bpe), pieces(_ANCHOR + text, bpe)
    # Without a piece for its bytes, the anchor is in one piece with other characters that have none.
    unknown = found[len(anchor) - 1].removeprefix(anchor[-1])
    return [unknown] * bool(unknown) + found[len(anchor) :]


def piece_of(symbol: int, bpe: Any, dictionary: Dictionary) -> str:
    """A token as its tokenizer writes it, with its mark for a space; fairseq's dictionaries of GPT-2 have numbers.

    Args:
        symbol: its id.
        bpe: fairseq's tokenizer.
        dictionary: of the model's input.
    """
    piece = str(dictionary[symbol])
    # a word that is no number is a special symbol, or fills a padded dictionary
    return str(bpe.bpe.decoder[int(piece)]) if isinstance(bpe, GPT2BPE) and piece.isdecimal() else piece


def token_text(symbol: int, bpe: Any, dictionary: Dictionary) -> str:
    r"""A token as text, with the space before it; special symbols by their names.

    Tokens of byte-level tokenizers may be parts of a character. Their bytes are shown as in Python: ``\xe6``.

    Args:
        symbol: its id.
        bpe: fairseq's tokenizer.
        dictionary: of the model's input.
    """
    piece = str(dictionary[symbol])
    if symbol < dictionary.nspecial or piece == MASK:
        return piece
    if isinstance(bpe, GPT2BPE):
        letters = piece_of(symbol, bpe, dictionary)
        if letters == piece:  # no number
            return piece
        return bytes(bpe.bpe.byte_decoder[letter] for letter in letters).decode("utf-8", "backslashreplace")
    if byte := _BYTE.fullmatch(piece):
        return bytes.fromhex(byte[1]).decode("utf-8", "backslashreplace")
    return " " * piece.startswith(_BLANK) + str(bpe.decode(piece))  # decode() strips the space before a word


def _end_of_piece(text: str, start: int) -> int:
    """Where the piece from ``start`` ends: before the last space that precedes a word, if there is one."""
    limit = start + _PIECE
    if limit >= len(text):
        return len(text)
    return last_blank(text, start + 1, limit) or limit
