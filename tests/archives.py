"""Zips and tars, the same bytes each time."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

Members = Mapping[str, str | bytes]
"""Contents by name."""


def zipped(path: Path, members: Members) -> Path:
    """A zip of these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def tar_of(members: Members, *more: tarfile.TarInfo) -> bytes:
    """A tar of these files, with ``more`` members without content at its end."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in more:
            archive.addfile(member)
    return sink.getvalue()


def tarred(path: Path, members: Members, *more: tarfile.TarInfo) -> Path:
    """`tar_of` in a file, compressed if its name ends in .gz."""
    content = tar_of(members, *more)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path
