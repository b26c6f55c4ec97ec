"""The checkpoints in a run's folder: their state, the one to resume from, and handling damaged ones."""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from linformer_fairseq.checkpoints.checksum import Bytes, check_bytes
from linformer_fairseq.checkpoints.reading import CheckpointError, read_checkpoint, unpickle
from linformer_fairseq.checkpoints.writing import copy_atomically

# fairseq's names: of the last, the best, an epoch, an update, and one of the N best. No run resumes from crash.pt.
_NAME = r"checkpoint(?:_last|_best|\d+|_\d+_\d+|\.best_.+_-?\d+(?:\.\d+)?){suffix}\.pt"
_UNFINISHED = r"(?:checkpoint[^/]*|crash)\.pt\.tmp"
_ASIDE = ".damaged"


class State(Enum):
    """The state of a checkpoint file."""

    SOUND = "sound"
    NO_CHECKSUM = "no checksum, but readable"
    UNREADABLE = "whole, but not a checkpoint that can be loaded"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Examined:
    """The result of examining a checkpoint file."""

    path: Path
    state: State
    size: int
    """Its size in bytes."""
    found: Bytes
    """The result of `check_bytes`."""
    updates: int | None = None
    """Number of updates of the run; None if the file cannot be loaded."""
    reason: str = ""
    """Why it is damaged or cannot be loaded."""

    @property
    def usable(self) -> bool:
        """Whether a run can resume from it."""
        return self.state in (State.SOUND, State.NO_CHECKSUM)


Look = Callable[[Path], Examined]
"""A function that examines a file: :func:`examine`, or one that caches its results."""


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run in a folder resumes from."""

    chosen: Examined | None
    """The file; None if there is none to resume from."""
    passed_over: list[Examined] = field(default_factory=list)
    """Files that have precedence, but are damaged or cannot be loaded."""
    missing: bool = False
    """Whether checkpoint_last.pt does not exist."""

    @property
    def damaged(self) -> list[Examined]:
        """Damaged files that were passed over and have to be renamed."""
        return [examined for examined in self.passed_over if examined.state is State.DAMAGED]


def examine(path: Path) -> Examined:
    """Read a whole file, verify its checksum, and read its number of updates.

    Raises:
        OSError: if it cannot be read; this does not mean that it is damaged.
    """
    size = path.stat().st_size
    found, reason = check_bytes(path)
    if found is Bytes.DAMAGED:
        return Examined(path, State.DAMAGED, size, found, reason=reason)
    compared = found in (Bytes.SOUND, Bytes.NO_CHECKSUM)
    try:
        updates = _updates(path, mapped=compared)
    except CheckpointError as error:
        # If the bytes could not be verified, invalid content is the only sign of damage.
        state = State.UNREADABLE if compared else State.DAMAGED
        return Examined(path, state, size, found, reason=str(error).removeprefix(f"{path}: "))
    state = State.SOUND if found in (Bytes.SOUND, Bytes.RELEASED) else State.NO_CHECKSUM
    return Examined(path, state, size, found, updates)


def newest_usable(paths: Iterable[Path], look: Look = examine) -> tuple[Examined | None, list[Examined]]:
    """Find the usable file with the most updates; also return the unusable ones that precede it.

    Only this file and those that claim more updates are read completely.
    """
    unusable: list[Examined] = []
    for path in sorted(paths, key=lambda path: (_claimed_updates(path), path.name), reverse=True):
        examined = look(path)
        if examined.usable:
            return examined, unusable
        unusable.append(examined)
    return None, unusable


def last_checkpoint(folder: Path, suffix: str = "") -> Path:
    """Return the path of the file that fairseq resumes from."""
    return folder / f"checkpoint_last{suffix}.pt"


def checkpoints(folder: Path, suffix: str = "") -> list[Path]:
    """List all files in a folder from which fairseq can resume, sorted by name."""
    pattern = re.compile(_NAME.format(suffix=re.escape(suffix)))
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file())


def common_suffix(folder: Path) -> str:
    """The ``--checkpoint-suffix`` that all checkpoints of a folder have; those of shards are no such option."""
    pattern = re.compile(_NAME.format(suffix="(?P<suffix>.*)"))
    found = {match["suffix"] for path in folder.iterdir() if (match := pattern.fullmatch(path.name))}
    suffix = found.pop() if len(found) == 1 else ""
    return "" if re.match(r"-shard\d|-rank-\d", suffix) else suffix


def choose(folder: Path, suffix: str = "", look: Look = examine) -> Choice:
    """Choose a file to resume from: checkpoint_last.pt, or the newest usable one if that is damaged or missing.

    Args:
        folder: the run's ``--save-dir``.
        suffix: fairseq's ``--checkpoint-suffix``.
        look: examines a file.

    Raises:
        OSError: if a file cannot be read.
    """
    last, passed_over = last_checkpoint(folder, suffix), []
    there = checkpoints(folder, suffix)
    if last in there:
        examined = look(last)
        if examined.state is not State.DAMAGED:  # whether it can be loaded is left to the user
            return Choice(examined)
        passed_over = [examined]
        there.remove(last)
    chosen, unusable = newest_usable(there, look)
    return Choice(chosen, passed_over + unusable, missing=not last.exists())


def put_right(choice: Choice, folder: Path, suffix: str = "") -> list[Path]:
    """Rename the damaged files to NAME.damaged, and copy the chosen one to checkpoint_last.pt.

    Args:
        choice: must have a chosen file; otherwise, no file should be changed.
        folder: the run's ``--save-dir``.
        suffix: fairseq's ``--checkpoint-suffix``.

    Returns:
        the new names of the damaged files, in the order of ``choice.damaged``.

    Raises:
        OSError: if a file cannot be renamed or copied. No data is lost, and the call can be repeated.
    """
    assert choice.chosen is not None
    aside = [put_aside(examined.path) for examined in choice.damaged]
    last = last_checkpoint(folder, suffix)
    if choice.chosen.path != last:
        copy_atomically(choice.chosen.path, last)
    return aside


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove temporary files of saves that were killed; returns the removed files."""
    if not folder.is_dir():
        return []
    found = sorted(path for path in folder.iterdir() if re.fullmatch(_UNFINISHED, path.name))
    for path in found:
        path.unlink(missing_ok=True)
    return found


def put_aside(path: Path) -> Path:
    """Rename a damaged file to NAME.damaged, or NAME.damaged.2 and so on if that exists; returns the new name."""
    aside, number = path.with_name(path.name + _ASIDE), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}{_ASIDE}.{number}")
    return path.rename(aside)


def _claimed_updates(path: Path) -> float:
    """Return the updates that a possibly damaged file claims; infinity if they are not known."""
    try:
        return _updates(path, mapped=True)
    except CheckpointError:
        named = re.match(r"checkpoint_\d+_(\d+)", path.name)
        return float(named[1]) if named else float("inf")


def _updates(path: Path, mapped: bool) -> int:
    # mapped: the tensors are memory-mapped
    state = unpickle(str(path), str(path), mmap=True) if mapped else read_checkpoint(path)
    try:
        return int(state["optimizer_history"][-1].get("num_updates", 0))  # as fairseq reads old checkpoints
    except (TypeError, KeyError, IndexError, ValueError):
        raise CheckpointError(f"{path}: has no number of updates, so it is not a fairseq checkpoint") from None
