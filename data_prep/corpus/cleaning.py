"""Cleans a document into paragraphs, and decides whether it is usable."""

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
    """What is done to the text of every document; a paragraph is a line."""

    control: bool = True
    """Replace control characters (C0, C1, byte order marks) by blanks."""
    whitespace: bool = True
    """Make every run of white space (no-break, ideographic and so on) one blank, and strip paragraphs."""
    minimum_characters: int = 1
    """Drop documents that are shorter than this after cleaning."""


class Cleaned(NamedTuple):
    """A document ready to be written, or dropped."""

    paragraphs: list[str]
    """Without line feeds and never blank."""
    digest: bytes
    """16 bytes that depend on the text alone."""
    dropped: Literal["empty", "short"] | None


def digest(text: str) -> bytes:
    """16 bytes (BLAKE2b) that stand for ``text``."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def clean(text: str, where: str, options: Cleaning) -> Cleaned:
    """Clean one document.

    Args:
        text: paragraphs separated by line feeds.
        where: the document's place, for messages.
        options: what to do.

    Raises:
        UserError: a "word" too long to be one.
    """
    if options.control:
        text = _CONTROL.sub(" ", text)
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
