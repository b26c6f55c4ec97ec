"""A section of the page: Markdown as the commands of each kind of results make it, and what is missing there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from linformer_fairseq.files.json_records import naming

_PICTURE = re.compile(r"!\[(.*)\]\((.*)\)")


@dataclass(frozen=True)
class Missing:
    """What has not been made."""

    what: str
    command: str
    """Makes it; separated by line breaks if there are several."""


Part = str | Missing
"""Some lines of Markdown; or something that is missing there."""


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, or another subject."""

    anchor: str
    title: str
    about: str
    """What the paper has there, or what the section is about, as Markdown."""
    parts: list[Part]

    @property
    def missing(self) -> list[Missing]:
        """What is missing, in the order of the section."""
        return [part for part in self.parts if isinstance(part, Missing)]


def shown(results: Path, lines: Iterable[str], command: str) -> Iterator[Part]:
    """Lines of Markdown, with `Missing` in place of the pictures that do not exist.

    Args:
        results: folder that the paths of pictures are relative to.
        lines: each picture is a line of its own.
        command: draws the pictures.
    """
    for line in lines:
        picture = _PICTURE.fullmatch(line)
        if picture is None or (results / (name := unquote(picture[2]))).is_file():
            yield line
        else:
            yield Missing(f"the figure {name}", command)


def recorded(
    results: Path,
    name: str,
    read: Callable[[Path], dict[str, Any]],
    section: Callable[[dict[str, Any], Path], Iterator[str]],
) -> Iterator[Part]:
    """The sections of all records of `linformer analyse` with a file name.

    Args:
        results: folder of the results.
        name: of the files.
        read: reads a record.
        section: its lines, with the folder that its pictures are in, relative to ``results``.

    Raises:
        UserError: a record is damaged; it is named.
    """
    for path in sorted((results / "analysis").rglob(name)):
        where = path.parent.relative_to(results)
        with naming(path):
            record = read(path)
            lines = list(section(record, where))
            out = shlex.quote(f"{results.name}/{where.as_posix()}")
            command = f"{record['provenance']['command']} --out {out}"
        # with a finished result, the command that made it draws its figures
        yield from shown(results, lines, command)
        yield ""
