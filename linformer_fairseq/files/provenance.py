"""Where results come from: commit, date, machine, versions, and the sha256 of files."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from linformer_fairseq.files.processor import processor_name

MANIFEST = "manifest.json"
"""The file in which a step of data preparation says what it made, and of what."""

PACKAGES = ("torch", "fairseq-fixed", "sentencepiece", "numpy", "linformer-fairseq")
"""What the result of a training depends on."""


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def date() -> str:
    """The time in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of Python and of packages, by their names; "not installed" where one is not."""
    return {"python": platform.python_version(), **{package: _version(package) for package in packages}}


def commit(repository: Path) -> str:
    """The commit of the source tree, and whether files differ from it. An installed package has none, also if it is in
    a folder of another repository, which does not track its files."""
    found = git(repository, "rev-parse", "--short=12", "HEAD")
    if found is None or not git(repository, "ls-files", "--", "."):
        return "unknown (no git checkout)"
    changed = git(repository, "status", "--porcelain", "--untracked-files=no")
    return f"{found} with uncommitted changes" if changed else found


def git(repository: Path, *arguments: str) -> str | None:
    """What a git command prints, stripped; None where it fails, or where there is no git."""
    try:
        result = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def machine() -> str:
    """Processor, cores that this process may use, and memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{processor_name()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
