"""Where measured figures come from: commit, date, machine, versions."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("torch", "fairseq-fixed", "sentencepiece", "numpy", "linformer-fairseq")


def provenance(repository: Path) -> dict[str, str]:
    """What a reader needs to judge and repeat a measurement."""
    return {
        "commit": commit(repository),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **hardware(),
        "threads": str(torch.get_num_threads()),
        "system": f"{platform.system()} {platform.release()}",
        **versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def hardware() -> dict[str, str]:
    """This machine's processor and accelerator."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {_memory()} GiB memory",
        "accelerator": f"{gpus} x {torch.cuda.get_device_name(0)}" if gpus else "none",
    }


def commit(repository: Path) -> str:
    """The commit of the source tree, and whether files differ from it."""
    found = _git(repository, "rev-parse", "--short=12", "HEAD")
    if found is None:
        return "unknown (no git checkout)"
    changed = _git(repository, "status", "--porcelain", "--untracked-files=no")
    return f"{found} with uncommitted changes" if changed else found


def _git(repository: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
