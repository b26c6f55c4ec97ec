"""Byte pieces of sentencepiece are decoded to characters.

What fairseq does: its ``sentencepiece`` tokenizer decodes by joining the pieces, so that a character which a model with
byte fallback encodes as bytes is decoded to ``<0xC3><0xA9>`` instead of ``é``. Observed in ``decode`` and ``fill_mask``
of the hub interface.

The patch: sequences of byte pieces are replaced by their characters before fairseq joins the pieces.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

from linformer_fairseq.files.byte_pieces import join_byte_pieces


def _with_characters(decode: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(decode)
    def decode_bytes(self: Any, x: str) -> str:
        return decode(self, join_byte_pieces(x))

    return decode_bytes


REPLACED = ((SentencepieceBPE, "decode", _with_characters),)
