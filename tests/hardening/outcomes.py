"""What a reader makes of mutants: in a process of its own with bounded memory, which a crash or a hang only ends."""

from __future__ import annotations

import json
import mmap
import os
import resource
import shutil
import signal
import struct
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow

from linformer_fairseq.files.errors import UserError
from tests.hardening.readers import Reader

MEMORY = 2**31
"""Bytes that reading may ask for, beside what the process has."""
SECONDS = 20
"""The longest that a mutant may take."""
LONGEST_MESSAGE = 1000


def outcomes(reader: Reader, numbers: range, work: Path) -> tuple[Counter[str], list[str]]:
    """How many mutants a reader read or refused, and all else that happened.

    Args:
        reader: of `readers.READERS`.
        numbers: of the mutants.
        work: existing folder.
    """
    place = mmap.mmap(-1, 8)  # the number of the mutant that is being read
    report = work / "report.json"
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    child = os.fork()
    if child == 0:
        try:
            _limit()
            with (work / "stderr").open("wb") as log:
                os.dup2(log.fileno(), 2)
                os.dup2(log.fileno(), 1)
                report.write_text(json.dumps(_read_all(reader, numbers, work, place)))
            os._exit(0)
        except BaseException:
            report.write_text(json.dumps([{}, [traceback.format_exc()]]))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if report.is_file():
        found, wrong = json.loads(report.read_text())
        counts.update(found)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        wrong.append(f"{struct.unpack('q', place[:8])[0]}: the process was ended by {name}")
    return counts, wrong


def bounded(call: Callable[[], object]) -> str:
    """What a call raises in a process with bounded memory: the error's type and words; "" if nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            _limit()
            signal.alarm(SECONDS)
            call()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode("utf-8", "replace")[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process ended with status {status}"
    return said


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # its own reserves more than that at once
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process in the middle of a library, too


def _read_all(reader: Reader, numbers: range, work: Path, place: mmap.mmap) -> tuple[dict[str, int], list[str]]:
    folder, out = work / "in", work / "out"
    folder.mkdir()
    path = reader.make(folder)
    content = path.read_bytes()
    good = {other: other.read_bytes() for other in folder.rglob("*") if other.is_file()}
    reader.read(path, out)
    counts: Counter[str] = Counter()
    wrong = []
    before = _names(work)
    for number in numbers:
        place[:8] = struct.pack("q", number)
        _restore(folder, out, good, path)
        kind, changed = reader.mutate(content, number)
        _overwrite(path, changed)
        signal.alarm(SECONDS)
        found = outcome(reader, path, out)
        signal.alarm(0)
        counts[found] += 1
        if found not in ("read", "refused"):
            wrong.append(f"{number} ({kind}): {found}")
        if _names(work) != before:
            wrong.append(f"{number} ({kind}): wrote {sorted(_names(work) ^ before)}")
            before = _names(work)
    return counts, wrong


def _overwrite(path: Path, content: bytes) -> None:
    """Write a file in place, which is a hundred times as fast as emptying it first."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def _restore(folder: Path, out: Path, good: dict[Path, bytes], mutated: Path) -> None:
    """Have the good files of a folder in it, and nothing else; ``mutated`` is written next."""
    if out.exists():
        shutil.rmtree(out)
    for other in folder.rglob("*"):
        if other.is_file() and other not in good:
            other.unlink()
    for other, content in good.items():
        there = other.is_file()
        if not there or (other != mutated and other.read_bytes() != content):
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_bytes(content)


def _names(work: Path) -> set[str]:
    """What lies beside the folders that readers read and write."""
    return {path.name for path in work.iterdir() if path.name not in ("out", "report.json")}


def outcome(reader: Reader, path: Path, out: Path) -> str:
    """What reading a file gives, in a few words: "read", "refused", or what is wrong."""
    try:
        reader.read(path, out)
    except UserError as error:
        message = str(error)
        named = [path, *(path.with_name(name) if name else path.parent for name in reader.also or ())]
        if reader.also is not None and not any(str(name) in message for name in named):
            return f"unnamed: {message[:300]}"
        if "\n" in message or (reader.also is not None and len(message) > LONGEST_MESSAGE):
            return f"no plain line of text: {message[:300]!r}"
        return "refused"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        ours = [entry for entry in traceback.extract_tb(error.__traceback__) if "site-packages" not in entry.filename]
        near = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno} ({near}): {str(error)[:200]}"
    return "read"
