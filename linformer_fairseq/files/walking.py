"""All files in a folder and the folders below it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Contents:
    """What is in a folder and the folders below it; each list is sorted."""

    files: list[Path] = field(default_factory=list)
    hidden: list[Path] = field(default_factory=list)
    """Files and folders whose names begin with a dot."""
    unreadable: dict[Path, str] = field(default_factory=dict)
    """Folders that cannot be read, and why."""


def walk(folder: Path) -> Contents:
    """Find all files below ``folder``, without the hidden ones.

    Links to folders are followed; a folder that is reached a second time, as by a link to one above it, is left out.
    """
    found = Contents()
    seen: set[Path] = set()

    def cannot_read(error: OSError) -> None:
        found.unreadable[Path(error.filename)] = error.strerror or str(error)

    for root, folders, names in os.walk(folder, followlinks=True, onerror=cannot_read):
        here = Path(root)
        real = here.resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        found.hidden.extend(here / name for name in (*folders, *names) if name.startswith("."))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found.files.extend(here / name for name in names if not name.startswith("."))
    found.files.sort(key=lambda path: path.parts)
    found.hidden.sort(key=lambda path: path.parts)
    return found
