"""The English text in Python's standard library as a source: manual topics, then docstrings by module."""

import platform
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from data_prep.sources.source import IterableUnit, Unit
from data_prep.stdlib.docstrings import docstrings, fingerprint, paragraphs, topics
from data_prep.stdlib.task import held_out_marks

LICENSE = "PSF-2.0"
"""Of the standard library and its manual."""


def stdlib_units() -> list[Unit]:
    """Two units, without what ``data_prep.stdlib_packages`` holds out; a topic or a module is a document."""
    identity: dict[str, object] = {"python": platform.python_version()}
    return [
        IterableUnit("stdlib topics", _topics, identity),
        IterableUnit("stdlib docstrings", _modules, identity),
    ]


def _topics() -> Iterator[str]:
    held_out = held_out_marks(docstrings())
    for text in topics().values():
        yield from _without(paragraphs(text), held_out)


def _modules() -> Iterator[str]:
    held_out = held_out_marks(docstrings())
    for _, items in groupby(docstrings(), key=attrgetter("module")):
        yield from _without((block for item in items for block in paragraphs(item.text)), held_out)


def _without(blocks: Iterable[str], held_out: set[bytes]) -> Iterator[str]:
    """One document, or none where nothing of it is left."""
    kept = [block for block in blocks if fingerprint(block) not in held_out]
    if kept:
        yield "\n".join(kept)
