"""The interface of sources: a source is a list of units, and a unit yields documents."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

Errors = Literal["strict", "replace"]


class Record(NamedTuple):
    """One document as read, before any cleaning."""

    text: str
    """The paragraphs, separated by ``\\n``; there may be empty lines between them."""
    where: str
    """Its location, for messages: ``books.txt.xz, line 123`` or ``part.parquet, row 7``."""
    replaced: bool = False
    """Whether it had bytes that are not UTF-8 and were replaced by U+FFFD (only with ``errors="replace"``)."""


class Unit(ABC):
    """A part of a source, with documents in a fixed order: a local file, a file on the hub, or generated text."""

    name: str
    """Name in messages and in the manifest."""
    size: int | None
    """Size of the file in bytes (compressed, if it is); None if there is no file."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """JSON values that change when the input changes, without reading it."""

    @abstractmethod
    def documents(self, errors: Errors = "strict", skip: int = 0) -> Iterator[Record]:
        """The documents, without the first ``skip``.

        Args:
            errors: what to do with bytes that are not UTF-8: a `UserError`, or U+FFFD.
            skip: number of documents to skip.

        Raises:
            UserError: the input is invalid; the message has file and position.
        """

    @abstractmethod
    def position(self) -> int:
        """How much of ``size`` has been consumed so far."""

    @abstractmethod
    def provenance(self) -> dict[str, object]:
        """:meth:`identity`, and JSON values that require reading the whole input, such as the SHA-256.

        Raises:
            UserError: the file is no longer the one that was read.
        """


@dataclass(frozen=True)
class Source:
    """A source of documents, as given by the user."""

    name: str
    """The source as written on the command line."""
    weight: float
    """The value of ``weight=``; default: 1."""
    units: tuple[Unit, ...]
    """Its parts, in the order in which they are read."""
    ignored: tuple[str, ...] = ()
    """Hidden files of a folder, which are not read but reported."""
    license: str | None = None
    """Of the text, as the user states it."""


class IterableUnit(Unit):
    """Generated documents: made by a function that returns the same ones at every call."""

    size = None

    def __init__(self, name: str, make: Callable[[], Iterable[str]], identity: dict[str, object]) -> None:
        """``make()`` returns the texts; ``identity`` must change when they do."""
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
        """Return 0: generated documents have no size."""
        return 0

    def provenance(self) -> dict[str, object]:
        """Return the identity."""
        return self.identity()
