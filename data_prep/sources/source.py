"""What every source of documents offers: a source is a list of units, a unit yields documents."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

Errors = Literal["strict", "replace"]


class Record(NamedTuple):
    """One document as read, before any cleaning."""

    text: str
    """Its paragraphs, each ended by ``\\n`` but for the last; empty lines may stand between them."""
    where: str
    """Where it stands, for messages: ``books.txt.xz, line 123`` or ``part.parquet, row 7``."""
    replaced: bool = False
    """Whether bytes of it were not UTF-8 and are U+FFFD now (``errors="replace"`` only)."""


class Unit(ABC):
    """One part of a source, read in a fixed order: a file here or on the hub, or something made on the spot."""

    name: str
    """What it is called in messages and in the manifest."""
    size: int | None
    """Bytes of the file as it lies on the disk; None where there is no file."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What tells cheaply whether this is still the same input: JSON values only."""

    @abstractmethod
    def documents(self, errors: Errors = "strict", skip: int = 0) -> Iterator[Record]:
        """The documents, without the first ``skip``.

        Args:
            errors: what to do with bytes that are not UTF-8: a `UserError`, or U+FFFD.
            skip: leave out so many; nothing is yielded where there are not more than these.

        Raises:
            UserError: anything wrong with the input, with file and position.
        """

    @abstractmethod
    def position(self) -> int:
        """How much of ``size`` has been consumed so far."""

    @abstractmethod
    def provenance(self) -> dict[str, object]:
        """:meth:`identity` and what takes a whole reading to know, such as the sha256: JSON values only.

        Raises:
            UserError: the file is no longer the one that was read.
        """


@dataclass(frozen=True)
class Source:
    """Where documents come from, as the user said it."""

    name: str
    """The source as written on the command line."""
    weight: float
    """What the user gave as ``weight=``; 1 if nothing."""
    units: tuple[Unit, ...]
    """Its parts, in the order in which they are read."""
    ignored: tuple[str, ...] = ()
    """Hidden files of a folder, which are left out: for a line on the screen or in the manifest."""


class IterableUnit(Unit):
    """Documents that are not in a file: made by a function that gives the same ones at every call."""

    size = None

    def __init__(self, name: str, make: Callable[[], Iterable[str]], identity: dict[str, object]) -> None:
        """``make()`` gives the texts; ``identity`` changes when they do."""
        self.name = name
        self._make = make
        self._identity = identity

    def identity(self) -> dict[str, object]:
        """The identity given, with the name."""
        return {"name": self.name, **self._identity}

    def documents(self, errors: Errors = "strict", skip: int = 0) -> Iterator[Record]:
        """The texts in order."""
        for number, text in islice(enumerate(self._make(), start=1), skip, None):
            yield Record(text, f"{self.name}, document {number}")

    def position(self) -> int:
        """Return 0: these documents have no size to measure progress by."""
        return 0

    def provenance(self) -> dict[str, object]:
        """Return the identity, which is all that is known of the origin."""
        return self.identity()
