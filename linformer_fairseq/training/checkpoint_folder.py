"""The checkpoints of a run's folder, the one to go on from, and putting the folder right."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from linformer_fairseq.compat.atomic_copy import copy_atomically
from linformer_fairseq.training.examine import Examined, Look, State, examine, newest_usable

# fairseq's names: of the last, the best, an epoch, an update, and one of the N best. crash.pt is none to go on from.
_NAME = r"checkpoint(?:_last|_best|\d+|_\d+_\d+|\.best_.+_\d+(?:\.\d+)?){suffix}\.pt"
_UNFINISHED = r"(?:checkpoint[^/]*|crash)\.pt\.tmp"
_ASIDE = ".damaged"


@dataclass(frozen=True)
class Choice:
    """What a run that is started again in a folder goes on from."""

    chosen: Examined | None
    """None where there is nothing to go on from"""
    passed_over: list[Examined] = field(default_factory=list)
    """files that would have come first, damaged or not to be loaded"""
    missing: bool = False
    """there is no checkpoint_last.pt, though there are others"""

    @property
    def damaged(self) -> list[Examined]:
        """Those passed over that have to be put aside."""
        return [examined for examined in self.passed_over if examined.state is State.DAMAGED]


def last_checkpoint(folder: Path, suffix: str = "") -> Path:
    """The file that fairseq goes on from."""
    return folder / f"checkpoint_last{suffix}.pt"


def checkpoints(folder: Path, suffix: str = "") -> list[Path]:
    """All files of a folder that fairseq saved to go on from, sorted by name."""
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
