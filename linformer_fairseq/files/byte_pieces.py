"""The pieces with which a sentencepiece model with byte fallback writes characters that it lacks, one for each byte."""

import re

# Whole pieces only: the same characters in a text are several pieces and are not changed.
_BYTE_RUN = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>(?: <0x[0-9A-F]{2}>)*(?!\S)")


def join_byte_pieces(pieces: str) -> str:
    """Replace each sequence of byte pieces in ``pieces``, separated by spaces, by its characters.

    Bytes that are not valid UTF-8, such as an incomplete character, become U+FFFD.
    """

    def characters(run: re.Match[str]) -> str:
        return bytes(int(piece[3:5], 16) for piece in run[0].split()).decode("utf-8", "replace")

    return _BYTE_RUN.sub(characters, pieces)
