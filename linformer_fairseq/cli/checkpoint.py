"""`linformer checkpoint`: verify the checkpoints of a run, and export models for sharing."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from linformer_fairseq.checkpoints.folder import (
    Look,
    State,
    choose,
    common_suffix,
    examine,
    last_checkpoint,
    put_aside,
    put_right,
)
from linformer_fairseq.checkpoints.released_folder import existing_weights
from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.files import run_record
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.locks import Lock
from linformer_fairseq.launch.pretrained import read_pretrained


def run(arguments: argparse.Namespace) -> int:
    """Verify or release; returns the exit status."""
    return _verify(arguments) if arguments.action == "verify" else _release(arguments)


def _release(arguments: argparse.Namespace) -> int:
    first, *others = map(existing_weights, arguments.checkpoints)
    if others:
        _require_one_model(first, others)
    try:
        for path in release(first, arguments.data, arguments.out, others):
            print(f"{path}: {path.stat().st_size:,} bytes")
    except ValueError as error:
        raise UserError(str(error)) from error
    return 0


def _require_one_model(first: Path, others: Sequence[Path]) -> None:
    """Raise unless checkpoints are different ones of the same model; weights of equal shapes do not tell all of it."""
    model, seen = read_pretrained(first), {first.resolve()}
    for other in others:
        if other.resolve() in seen:
            raise UserError(f"{other}: is given twice; expected different checkpoints of the same model")
        seen.add(other.resolve())
        found = read_pretrained(other)
        if different := model.difference(found.name, found.options):
            key, one, two = different
            raise UserError(
                f"{other}: has model.{key}={two}, but {first} has {one}; expected checkpoints of the same model"
            )


def _verify(arguments: argparse.Namespace) -> int:
    paths: list[Path] = arguments.paths
    for path in paths:
        if not os.path.lexists(path):
            raise UserError(f"{path}: no such file or folder")
        if arguments.set_aside and not path.is_dir():
            raise UserError(f"--set-aside {path}: expected a run's folder, and this is a file")
    look = functools.cache(examine)  # each file is read once
    good = []
    for path in paths:
        with _without_run(path) if arguments.set_aside else nullcontext():
            good.append(_folder(path, look, arguments.set_aside) if path.is_dir() else _line(path, look))
    return 0 if all(good) else 1


def _without_run(folder: Path) -> AbstractContextManager[object]:
    """Keep runs of `linformer` out of their folder: they write the same files. In others there is no lock.

    Raises:
        UserError: one is active there.
    """
    lock = folder / run_record.LOCK
    try:
        return Lock(lock, sign=True) if lock.is_file() else nullcontext()
    except UserError as error:
        raise UserError(f"--set-aside {error}") from None


def _folder(folder: Path, look: Look, set_aside: bool) -> bool:
    """Print a line per checkpoint, and which one a run resumes from; return whether all are usable."""
    files = sorted({*folder.glob("checkpoint*.pt"), *folder.glob("crash.pt")})
    if not files:  # not a run folder
        if not (files := sorted({*folder.glob("*.pt"), *folder.glob("*.safetensors")})):
            raise UserError(f"{folder}: no checkpoints there (*.pt, *.safetensors)")
        sound = [_line(path, look) for path in files]  # a list: prints a line for each, also after a damaged one
        return all(sound)
    usable = [_line(path, look) for path in files]
    suffix = common_suffix(folder)
    choice = choose(folder, suffix, look)
    if choice.chosen is None or not choice.chosen.usable:
        kept = "; --set-aside renames nothing then: without these files, a run would begin anew" if set_aside else ""
        print(f"{folder}: nothing to go on from{kept}")
        return False
    option = f" with checkpoint.checkpoint_suffix={suffix}" if suffix else ""
    print(f"{folder}: a run{option} goes on from {choice.chosen.path.name} ({choice.chosen.updates} updates)")
    if not set_aside:
        return all(usable)
    moved = dict(zip((examined.path for examined in choice.damaged), put_right(choice, folder, suffix), strict=True))
    others = [path for path in files if path not in moved and (_is_dead(path) or look(path).state is State.DAMAGED)]
    moved |= {path: put_aside(path) for path in others}
    for path, aside in moved.items():
        print(f"{path} -> {aside.name}")
    if choice.passed_over or choice.missing:
        print(f"{choice.chosen.path} copied to {last_checkpoint(folder, suffix).name}")
    return True


def _is_dead(path: Path) -> bool:
    """Whether a path is a link to nothing."""
    return path.is_symlink() and not path.exists()


def _line(path: Path, look: Look) -> bool:
    """Print what a file is; return whether a run can go on from it."""
    if _is_dead(path):
        print(f"{path}: a link to {path.readlink()}, which does not exist")
        return False
    examined = look(path)
    updates = "" if examined.updates is None else f", {examined.updates:,} updates"
    reason = f" ({examined.reason})" if examined.reason else ""
    print(f"{examined.path}: {examined.state.value}{reason}{updates}, {examined.size:,} bytes")
    return examined.usable
