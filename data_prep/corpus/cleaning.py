"""Cleans the paragraphs of a document, and decides whether to drop it."""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import LONGEST_WORD

# C0 and C1 control characters other than tab and newline, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Cleaning:
    """Options of cleaning; each line of a document is a paragraph."""

    control: bool = True
    """Replace control characters (C0, C1, byte order marks) by spaces."""
    whitespace: bool = True
    """Replace every run of white space (of any kind) by one space, and strip paragraphs."""
    minimum_characters: int = 1
    """Drop documents with fewer characters after cleaning."""


class Cleaned(NamedTuple):
    """A cleaned document."""

    paragraphs: list[str]
    """Without line feeds and never blank."""
    digest: bytes
    """Hash of the cleaned text, 16 bytes."""
    dropped: Literal["empty", "short"] | None


def digest(text: str) -> bytes:
    """Hash of ``text``: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def clean(text: str, where: str, options: Cleaning) -> Cleaned:
    """Clean one document.

    Args:
        text: paragraphs separated by line feeds.
        where: location of the document, for messages.
        options: options of cleaning.

    Raises:
        UserError: a "word" is longer than any in a text, or there is a zero character that is not to be replaced.
    """
    if options.control:
        text = _CONTROL.sub(" ", text)
    elif "\0" in text:  # JSON and parquet can have one, and binarizing refuses it
        raise UserError(f"{where}: has a zero character, as no text does; leave out --no-clean-control, or remove it")
    paragraphs = text.split("\n")
    if options.whitespace:
        paragraphs = [" ".join(paragraph.split()) for paragraph in paragraphs]
    paragraphs = [paragraph for paragraph in paragraphs if paragraph and not paragraph.isspace()]
    for paragraph in paragraphs:
        if len(paragraph) > LONGEST_WORD:
            _refuse_long_words(paragraph, where)
    kept = "\n".join(paragraphs)
    mark = digest(kept)
    if not kept:
        return Cleaned([], mark, "empty")
    return Cleaned(paragraphs, mark, "short" if len(kept) < options.minimum_characters else None)


def _refuse_long_words(paragraph: str, where: str) -> None:
    for word in _WORD.finditer(paragraph):
        if word.end() - word.start() > LONGEST_WORD:
            raise UserError(
                f"{where}: {word.end() - word.start():,} characters without white space, at most {LONGEST_WORD:,} are "
                f"taken for text; they begin with {word[0][:60]!r}"
            )
