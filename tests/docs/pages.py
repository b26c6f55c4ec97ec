"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY

GUIDES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted(REPOSITORY.glob("docs/*.md")),
    REPOSITORY / "linformer_fairseq" / "weights" / "README.md",
]
"""What is written for users, and has commands."""
PAGES = [
    *GUIDES,
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / "SECURITY.md",
    REPOSITORY / "data_prep" / "README.md",
    REPOSITORY / "benchmarks" / "NOTES.md",
    *sorted(REPOSITORY.glob("results/**/README.md")),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of code."""

    page: Path
    line: int
    """Number of its first line in the page."""
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(REPOSITORY))


def blocks(language: str) -> list[Block]:
    """All blocks of a language in the guides."""
    return [block for page in GUIDES for block in _blocks(page) if block.language == language]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        yield Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))
