"""Whether a checkpoint file is whole, and how many updates are in it."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from linformer_fairseq.checksum import Bytes, check_bytes
from linformer_fairseq.compat.checkpoint_loading import CheckpointError, read_checkpoint, unpickle
from linformer_fairseq.released_model import is_released


class State(Enum):
    """How a checkpoint file stands."""

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
    """in bytes"""
    updates: int | None = None
    """that the run had made; None where it cannot be loaded"""
    reason: str = ""
    """why it is damaged or cannot be loaded"""

    @property
    def usable(self) -> bool:
        """Whether a run can go on from it."""
        return self.state in (State.SOUND, State.NO_CHECKSUM)


Look = Callable[[Path], Examined]
"""How a file is examined: :func:`examine`, or something that remembers what it found."""


def examine(path: Path) -> Examined:
    """Read a whole file, hold it against its checksum, and look how many updates it has.

    Raises:
        OSError: if it cannot be read; that says nothing about its content.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if is_released(file):
            return _released(path, size)
    found, reason = check_bytes(path)
    if found is Bytes.DAMAGED:
        return Examined(path, State.DAMAGED, size, reason=reason)
    try:
        updates = _updates(path, found is not Bytes.NOTHING)
    except CheckpointError as error:
        # Without a checksum, bytes of the pickle that make no sense are all there is to see damage by.
        state = State.DAMAGED if found is Bytes.NOTHING else State.UNREADABLE
        return Examined(path, state, size, reason=str(error).removeprefix(f"{path}: "))
    return Examined(path, State.SOUND if found is Bytes.SOUND else State.NO_CHECKSUM, size, updates)


def _released(path: Path, size: int) -> Examined:
    try:
        return Examined(path, State.SOUND, size, _updates(path, mapped=False))
    except CheckpointError as error:
        return Examined(path, State.DAMAGED, size, reason=str(error).removeprefix(f"{path}: "))


def newest_usable(paths: Iterable[Path], look: Look = examine) -> tuple[Examined | None, list[Examined]]:
    """The usable file with most updates, and the others that were met on the way to it.

    Only files that claim to be newer than the one found are read whole.
    """
    unusable: list[Examined] = []
    for path in sorted(paths, key=lambda path: (_claimed_updates(path), path.name), reverse=True):
        examined = look(path)
        if examined.usable:
            return examined, unusable
        unusable.append(examined)
    return None, unusable


def _claimed_updates(path: Path) -> float:
    """What a file that may be damaged says; most of all where nothing can be read or guessed."""
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
