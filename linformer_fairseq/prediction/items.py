"""Texts to process, with their places in the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

LONGEST = 32 << 20
"""Bytes of the longest text that is processed."""
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class Item(NamedTuple):
    """A text and where it stands."""

    id: str
    """Number of the line or row, from 1, or name of the document in its folder."""
    text: Text | ValueError
    size: int
    """The part of `Source.total` that it is."""


@dataclass(frozen=True)
class Source:
    """Texts to be read."""

    name: str
    """Of the file or folder, for messages."""
    place: str
    """What ``id`` of an item is: ``line``, ``row`` or ``document``."""
    items: Iterator[Item]
    total: int | None
    """Bytes of the file, rows or documents; None if unknown."""
    unit: str
    """What ``total`` counts, in the plural; bytes if empty."""


def text_of(values: Sequence[Any], fields: Sequence[str]) -> Text:
    """The text of one column, or the pair of two.

    Raises:
        ValueError: a value is not a text, or has a zero character, which JSON can write.
    """
    for field, value in zip(fields, values, strict=True):
        if not isinstance(value, str):
            raise ValueError(f"expected a text in {field!r}, found {'none' if value is None else repr(value)[:60]}")
        _refuse_zero(value, f" of {field!r}")
    return values[0] if len(values) == 1 else (values[0], values[1])


def one_line(text: Text) -> Text:
    """The text as tokenizers expect it: a single line, without white space around it.

    Raises:
        ValueError: there is none, one of a pair is missing, or it has a zero character.
    """
    if isinstance(text, str):
        one = _joined(text)
        if not one:
            raise ValueError("no text")
        return one
    first, second = map(_joined, text)
    if not first and not second:
        raise ValueError("no text")
    if not first or not second:
        raise ValueError(f"no {'second' if first else 'first'} text, expected a pair")
    return first, second


def unlike_training(texts: int, singles: int, pairs: int, trained: int | None) -> str:
    """A remark on pairs for a model of single texts, or the reverse; empty if there are none.

    Args:
        texts: the number of all inputs, with those that are errors.
        singles: of these, single texts.
        pairs: likewise.
        trained: the number of texts of an input in the training, 2 for pairs; None: not known.
    """
    wrong, what = {
        1: (pairs, "pairs, but the model was finetuned on single texts"),
        2: (singles, "single texts, but the model was finetuned on pairs"),
    }.get(trained or 0, (0, ""))
    return f"{wrong:,} of {texts:,} texts are {what}: their classes mean nothing" if wrong else ""


def _refuse_zero(text: str, where: str = "") -> None:
    if "\0" in text:
        raise ValueError(f"a zero character at character {text.index(chr(0)):,}{where}, which no text has")


def _joined(text: str) -> str:
    _refuse_zero(text)
    if "\n" in text:
        return " ".join(filter(None, (line.strip(" \t\r") for line in text.split("\n"))))
    return text.strip(" \t\r")  # as data preparation does


def decoded(raw: bytes) -> str | ValueError:
    """The text of UTF-8, or the error that says which byte is none.

    A zero byte is UTF-8, but no text: it is found in binary data and in UTF-16.
    """
    if (zero := raw.find(0)) >= 0:
        return ValueError(f"a zero byte at offset {zero:,} of the text: binary data or UTF-16, expected UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        return ValueError(f"not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start:,} of the text")


def kept(error: ValueError) -> ValueError:
    """The error of a text, to be kept without the text: frames of its traceback, and errors before it, hold that."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def too_long() -> ValueError:
    """The error for a text over `LONGEST`."""
    return ValueError(f"longer than {LONGEST:,} bytes")
