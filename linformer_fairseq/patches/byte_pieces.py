"""Byte pieces of sentencepiece are decoded to characters.

What fairseq does: its ``sentencepiece`` tokenizer decodes by joining the pieces, so that a character which a model with
byte fallback encodes as bytes is decoded to ``<0xC3><0xA9>`` instead of ``é``. Observed in ``decode`` and ``fill_mask``
of the hub interface.

The patch: sequences of byte pieces are replaced by their characters before fairseq joins the pieces.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

# Whole pieces only: the same characters in a text are several pieces and are not changed.
_BYTE_RUN = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>(?: <0x[0-9A-F]{2}>)*(?!\S)")


def join_byte_pieces(pieces: str) -> str:
    """Replace each sequence of byte pieces in ``pieces``, separated by spaces, by its characters.

    Bytes that are not valid UTF-8, such as an incomplete character, become U+FFFD.
    """

    def characters(run: re.Match[str]) -> str:
        return bytes(int(piece[3:5], 16) for piece in run[0].split()).decode("utf-8", "replace")

    return _BYTE_RUN.sub(characters, pieces)


def _with_characters(decode: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(decode)
    def decode_bytes(self: Any, x: str) -> str:
        return decode(self, join_byte_pieces(x))

    return decode_bytes


REPLACED = ((SentencepieceBPE, "decode", _with_characters),)
