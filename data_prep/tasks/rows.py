"""What every source of a task yields: rows, and rows that cannot be used."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """An example as its file has it."""

    split: str
    order: tuple[int, int]
    """Where it goes in its split: the same whatever order a folder or an archive lists its files in."""
    identifier: str
    texts: tuple[str, ...]
    label: str | None
    """None in test sets without labels."""
    file: str
    line: int
    raw: str = ""
    """The row as it was read, for the list of rejects; the texts where it is left out."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that is no example."""

    split: str
    file: str
    line: int
    reason: str
    raw: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}: {self.raw[:80]!r}"


@dataclass
class Facts:
    """What a source has to say for the manifest; complete once its rows have been read."""

    source: dict[str, Any]
    """Where the data came from: path or repository and revision, and the sha256 of what was read."""
    remarks: list[str] = field(default_factory=list)
    """Sentences for the user."""


def strip(text: str) -> str:
    """A text without the blanks around it: SST-2's sentences end in one."""
    return text.strip(" \t\r")  # not strip(): it takes IMDB's U+0085 for one


class Source(Protocol):
    """Where the examples of a task come from."""

    labels: tuple[str, ...]
    facts: Facts

    def rows(self) -> Iterator[Row | Reject]:
        """Every row of every split, once.

        Raises:
            UserError: a file that is missing, empty, truncated, binary, not UTF-8, or has another header.
        """
        ...
