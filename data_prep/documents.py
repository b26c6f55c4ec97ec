"""Documents: cutting text into paragraphs, de-duplicating them, and splitting by hash."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
# Rules under and over headings ("=====", "*****"): a line of one repeated mark says nothing.
_RULE = re.compile(r"^\s*([*=\-~^_#\"'+])\1{2,}\s*$", re.MULTILINE)
# C0 and C1 control characters other than tab, newline and carriage return, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")


@dataclass(frozen=True)
class Document:
    """A named piece of text: ``paragraphs`` are single lines without leading or trailing space."""

    name: str
    paragraphs: tuple[str, ...]

    def __len__(self) -> int:
        """Number of characters."""
        return sum(map(len, self.paragraphs))


def paragraphs(text: str) -> list[str]:
    """Blank-line-separated blocks of ``text``, each on one line with single spaces."""
    text = _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    blocks = (" ".join(block.split()) for block in _BLANK_LINES.split(_RULE.sub("", text)))
    return [block for block in blocks if block]


def fingerprint(text: str) -> bytes:
    """SHA-256 of ``text`` with case and white space levelled: equal texts to a reader are equal here."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).digest()


def share(text: str, salt: str) -> float:
    """A number in [0, 1) that depends on ``text`` and ``salt`` only: where the text falls in a split.

    Neither the order of documents nor the presence of others matters, so a document never moves from one
    side to the other when text is added.
    """
    digest = hashlib.sha256(salt.encode() + b"\0" + fingerprint(text)).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def deduplicate(documents: Iterable[Document]) -> tuple[list[Document], int]:
    """Keep each paragraph where it occurs first; drop documents with nothing left.

    Whole documents are not enough: a manual repeats sections inside longer ones, and the same passage on
    both sides of a split makes the validation perplexity too good.

    Returns:
        The documents, and the number of paragraphs dropped.
    """
    seen: set[bytes] = set()
    kept: list[Document] = []
    dropped = 0
    for document in documents:
        fresh = []
        for paragraph in document.paragraphs:
            mark = fingerprint(paragraph)
            if mark in seen:
                dropped += 1
            else:
                seen.add(mark)
                fresh.append(paragraph)
        if fresh:
            kept.append(Document(document.name, tuple(fresh)))
    return kept, dropped


def split(documents: list[Document], valid_share: float) -> tuple[list[Document], list[Document]]:
    """Split into train and valid by each document's own hash.

    Args:
        documents: at least two, or one side stays empty.
        valid_share: about this share of the documents goes to valid, and at least one.

    Returns:
        (train, valid), each in the order of ``documents``.
    """
    ranks = [share("\n".join(document.paragraphs), "corpus") for document in documents]
    # With few documents the hash may leave a side empty: its nearest document then moves over.
    limit = max(valid_share, min(ranks, default=0.0) + 1e-12)
    if len(documents) > 1:
        limit = min(limit, max(ranks))
    train = [d for d, rank in zip(documents, ranks, strict=True) if rank >= limit]
    valid = [d for d, rank in zip(documents, ranks, strict=True) if rank < limit]
    return train, valid
