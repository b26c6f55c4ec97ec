"""The interface of a task's sources: they yield rows, and invalid rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

SHOWN = 10
"""Rows that an error or report shows of those that are wrong."""


@dataclass(frozen=True, slots=True)
class Reject:
    """An invalid row."""

    split: str
    file: str
    line: int
    reason: str
    raw: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}: {self.raw[:80]!r}"


@dataclass(frozen=True, slots=True)
class Row:
    """An example as in its file."""

    split: str
    order: tuple[int, int]
    """Sort key within the split, independent of the order of files in a folder or archive."""
    identifier: str
    texts: tuple[str, ...]
    label: str | None
    """None in test sets without labels."""
    file: str
    line: int
    raw: str = ""
    """The row as it was read, for rejected.tsv; if empty, the texts are used."""

    def rejected(self, reason: str) -> Reject:
        """The row as one that is no example."""
        return Reject(self.split, self.file, self.line, reason, self.raw or "\t".join(self.texts))


@dataclass
class Facts:
    """Facts about a source for the manifest; complete after all rows have been read."""

    source: dict[str, Any]
    """The origin of the data: path, or repository and revision; and the SHA-256 of the files."""
    remarks: list[str] = field(default_factory=list)
    """Messages for the user."""


def strip(text: str) -> str:
    """Strip spaces, tabs and carriage returns: SST-2's sentences end with a space."""
    return text.strip(" \t\r")  # not strip(): it would also remove U+0085, which occurs in IMDB


class Source(Protocol):
    """A source of a task's examples."""

    labels: tuple[str, ...]
    facts: Facts

    def rows(self) -> Iterator[Row | Reject]:
        """All rows of all splits.

        Raises:
            UserError: a file is missing, empty, truncated, binary or not UTF-8, or has another header.
        """
        ...
