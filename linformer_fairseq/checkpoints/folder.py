"""The checkpoints in a run's folder: their condition, the one to go on from, and putting the folder right."""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from linformer_fairseq.checkpoints.checksum import Bytes, check_bytes
from linformer_fairseq.checkpoints.reading import CheckpointError, read_checkpoint, unpickle
from linformer_fairseq.checkpoints.writing import copy_atomically

# fairseq's names: of the last, the best, an epoch, an update, and one of the N best. crash.pt is not one to go on from.
_NAME = r"checkpoint(?:_last|_best|\d+|_\d+_\d+|\.best_.+_\d+(?:\.\d+)?){suffix}\.pt"
_UNFINISHED = r"(?:checkpoint[^/]*|crash)\.pt\.tmp"
_ASIDE = ".damaged"


class State(Enum):
    """The condition of a checkpoint file."""

    SOUND = "sound"
    NO_CHECKSUM = "no checksum, but readable"
    UNREADABLE = "whole, but not a checkpoint that can be loaded"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Examined:
    """What is known about a checkpoint file."""

    path: Path
    state: State
    size: int
    """Its size in bytes."""
    found: Bytes
    """Result of the checksum and of the structure of the file."""
    updates: int | None = None
    """The updates that the run had made; None where it cannot be loaded."""
    reason: str = ""
    """Why it is damaged or cannot be loaded."""

    @property
    def usable(self) -> bool:
        """Whether a run can go on from it."""
        return self.state in (State.SOUND, State.NO_CHECKSUM)


Look = Callable[[Path], Examined]
"""How a file is examined: :func:`examine`, or something that remembers what it found."""


@dataclass(frozen=True)
class Choice:
    """What a run that is started again in a folder goes on from."""

    chosen: Examined | None
    """The file; None where there is nothing to go on from."""
    passed_over: list[Examined] = field(default_factory=list)
    """Files that would have come first, but are damaged or cannot be loaded."""
    missing: bool = False
    """Whether there is no checkpoint_last.pt, though there are others."""

    @property
    def damaged(self) -> list[Examined]:
        """Damaged files that were passed over and have to be renamed."""
        return [examined for examined in self.passed_over if examined.state is State.DAMAGED]


def examine(path: Path) -> Examined:
    """Read a whole file, compare it with its checksum, and look how many updates it has.

    Raises:
        OSError: if it cannot be read; that says nothing about its content.
    """
    size = path.stat().st_size
    found, reason = check_bytes(path)
    if found is Bytes.DAMAGED:
        return Examined(path, State.DAMAGED, size, found, reason=reason)
    compared = found in (Bytes.SOUND, Bytes.NO_CHECKSUM)
    try:
        updates = _updates(path, mapped=compared)
    except CheckpointError as error:
        # Of a file that was not compared yet, content that makes no sense is all there is to see damage by.
        state = State.UNREADABLE if compared else State.DAMAGED
        return Examined(path, state, size, found, reason=str(error).removeprefix(f"{path}: "))
    state = State.SOUND if found in (Bytes.SOUND, Bytes.RELEASED) else State.NO_CHECKSUM
    return Examined(path, state, size, found, updates)


def newest_usable(paths: Iterable[Path], look: Look = examine) -> tuple[Examined | None, list[Examined]]:
    """Find the usable file with most updates; also return the others that were met on the way to it.

    Only files that claim to be newer than the one found are read whole.
    """
    unusable: list[Examined] = []
    for path in sorted(paths, key=lambda path: (_claimed_updates(path), path.name), reverse=True):
        examined = look(path)
        if examined.usable:
            return examined, unusable
        unusable.append(examined)
    return None, unusable


def last_checkpoint(folder: Path, suffix: str = "") -> Path:
    """Return the path of the file that fairseq goes on from."""
    return folder / f"checkpoint_last{suffix}.pt"


def checkpoints(folder: Path, suffix: str = "") -> list[Path]:
    """List all files of a folder that fairseq saved to go on from, sorted by name."""
    pattern = re.compile(_NAME.format(suffix=re.escape(suffix)))
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file())


def choose(folder: Path, suffix: str = "", look: Look = examine) -> Choice:
    """Find what to go on from: checkpoint_last.pt, or the newest usable one where that is damaged or missing.

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
        if examined.state is not State.DAMAGED:  # one that cannot be loaded is for the user to look at
            return Choice(examined)
        passed_over = [examined]
        there.remove(last)
    chosen, unusable = newest_usable(there, look)
    return Choice(chosen, passed_over + unusable, missing=not last.exists())


def put_right(choice: Choice, folder: Path, suffix: str = "") -> list[Path]:
    """Put the damaged files aside, as NAME.damaged, and the chosen one in checkpoint_last.pt's place.

    Args:
        choice: with a chosen file; where there is none, nothing should be touched.
        folder: the run's ``--save-dir``.
        suffix: fairseq's ``--checkpoint-suffix``.

    Returns:
        the new names of the damaged files, in the order of ``choice.damaged``.

    Raises:
        OSError: if a file cannot be renamed or copied. Nothing is lost then, and it can be tried again.
    """
    assert choice.chosen is not None
    aside = [put_aside(examined.path) for examined in choice.damaged]
    last = last_checkpoint(folder, suffix)
    if choice.chosen.path != last:
        copy_atomically(choice.chosen.path, last)
    return aside


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove what a save that was killed left under a temporary name; returns the removed files."""
    if not folder.is_dir():
        return []
    found = sorted(path for path in folder.iterdir() if re.fullmatch(_UNFINISHED, path.name))
    for path in found:
        path.unlink(missing_ok=True)
    return found


def put_aside(path: Path) -> Path:
    """Rename a damaged file to NAME.damaged, or with a number behind it where that is taken; returns the new name."""
    aside, number = path.with_name(path.name + _ASIDE), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}{_ASIDE}.{number}")
    return path.rename(aside)


def _claimed_updates(path: Path) -> float:
    """Return what a file that may be damaged says; infinity where nothing can be read or guessed."""
    try:
        return _updates(path, mapped=True)
    except CheckpointError:
        named = re.match(r"checkpoint_\d+_(\d+)", path.name)
        return float(named[1]) if named else float("inf")


def _updates(path: Path, mapped: bool) -> int:
    # mapped: the tensors stay on the disk
    state = unpickle(str(path), str(path), mmap=True) if mapped else read_checkpoint(path)
    try:
        return int(state["optimizer_history"][-1]["num_updates"])
    except (TypeError, KeyError, IndexError, ValueError):
        raise CheckpointError(f"{path}: no number of updates in it, so it is not a checkpoint of fairseq") from None
