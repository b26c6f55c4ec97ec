"""The English text of every CPython as a source: topics of the manual, then the docstrings module by module."""

import platform
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby

from data_prep.sources.source import IterableUnit, Unit
from data_prep.stdlib_packages import held_out_marks
from data_prep.stdlib_source import Docstring, docstrings, topics
from data_prep.wrapped_text import fingerprint, paragraphs


def stdlib_units() -> list[Unit]:
    """Two units, without what ``data_prep.stdlib_packages`` holds out; a topic or a module is a document."""
    identity: dict[str, object] = {"python": platform.python_version()}
    return [
        IterableUnit("stdlib topics", _topics, identity),
        IterableUnit("stdlib docstrings", _modules, identity),
    ]


@cache
def _source() -> list[Docstring]:
    return docstrings()  # seconds of parsing


def _topics() -> Iterator[str]:
    held_out = held_out_marks(_source())
    for text in topics().values():
        yield from _without(paragraphs(text), held_out)


def _modules() -> Iterator[str]:
    held_out = held_out_marks(_source())
    for _, items in groupby(_source(), key=_module):
        yield from _without((block for item in items for block in paragraphs(item.text)), held_out)


def _module(item: Docstring) -> str:
    return item.module


def _without(blocks: Iterable[str], held_out: set[bytes]) -> Iterator[str]:
    """One document, or none where nothing of it is left."""
    kept = [block for block in blocks if fingerprint(block) not in held_out]
    if kept:
        yield "\n".join(kept)
