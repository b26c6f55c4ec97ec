"""Wrapped text: cutting it into paragraphs, and comparing them as a reader would."""

import hashlib
import re

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
# Rules under and over headings ("=====", "*****"): a line of one repeated mark says nothing.
_RULE = re.compile(r"^\s*([*=\-~^_#\"'+])\1{2,}\s*$", re.MULTILINE)
# C0 and C1 control characters other than tab, newline and carriage return, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")


def paragraphs(text: str) -> list[str]:
    """Blank-line-separated blocks of ``text``, each on one line with single spaces."""
    text = _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    blocks = (" ".join(block.split()) for block in _BLANK_LINES.split(_RULE.sub("", text)))
    return [block for block in blocks if block]


def fingerprint(text: str) -> bytes:
    """SHA-256 of ``text`` with case and white space levelled: equal texts to a reader are equal here."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).digest()
