"""Checkpoints are loaded without executing code from them; errors name the file.

First, the file's checksum or CRCs are verified, which torch does not do: it would load a file with altered bytes in a
tensor without an error. It is then read with ``weights_only=True`` and an allow-list.

Not covered: some of fairseq's other models ``eval()`` option strings of a checkpoint when they are built (``fconv``).
What this project builds from a checkpoint is checked before (`checked_by`, ``models/stored.py``); fairseq's own
commands that build what a checkpoint names, such as ``fairseq-validate``, do not check it.
"""

import contextlib
import contextvars
import errno
import logging
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

from linformer_fairseq.checkpoints.allowed_globals import allowed_globals
from linformer_fairseq.checkpoints.checksum import Bytes, check_bytes
from linformer_fairseq.checkpoints.released_file import read_released
from linformer_fairseq.files.errors import UserError

logger = logging.getLogger(__name__)

Upgrade = Callable[[dict[str, Any]], None]

_upgrades: list[Upgrade] = []
_checked: dict[Path, Bytes] = {}
_checks: contextvars.ContextVar[tuple[Upgrade, ...]] = contextvars.ContextVar("checks", default=())

# How torch's restricted unpickler words a refusal; the group is the global that it refused.
_REFUSALS = (
    re.compile(r"Unsupported global: GLOBAL (\S+)"),
    re.compile(r"unsupported GLOBAL (\S+)"),
    re.compile(r"unrecognized function (.+)"),
    re.compile(r"via `add_safe_globals`,? but got (.+)"),
)

# Precedes the reason in a message of that unpickler, after advice to execute the file.
_UNPICKLER = "WeightsUnpickler error:"
_LONGEST_REASON = 200
_REMEDY = "If it was one, move it away and use another one (fairseq-train takes it with --restore-file)."

# Keys that fairseq requires in a checkpoint; old files have the second name.
_NEEDED = (("model",), ("cfg", "args"), ("optimizer_history", "best_loss"), ("extra_state", "epoch"))


class CheckpointError(UserError, ValueError):
    """A file is not a checkpoint that can be loaded; the message names the file and what to do."""


def register_upgrade(upgrade: Upgrade) -> None:
    """Call ``upgrade(state)`` for every checkpoint that is read, to change its dict in place.

    A ValueError that it raises is raised again with the file's name. Registering the same function again has no effect.
    """
    if upgrade not in _upgrades:
        _upgrades.append(upgrade)


@contextlib.contextmanager
def checked_by(check: Upgrade) -> Iterator[None]:
    """Inside the ``with`` block, call ``check(state)`` for every checkpoint that this thread reads, after the upgrades.

    A ValueError that it raises is raised again with the file's name.
    """
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


@contextlib.contextmanager
def already_checked(path: str | os.PathLike[str], found: Bytes) -> Iterator[None]:
    """Inside the ``with`` block, a file that :func:`check_bytes` has just checked is not checked again.

    Args:
        path: the file.
        found: the result of :func:`check_bytes`.
    """
    absolute = Path(path).absolute()
    _checked[absolute] = found
    try:
        yield
    finally:
        del _checked[absolute]


def read_checkpoint(file: str | os.PathLike[str] | BinaryIO, map_location: Any = "cpu") -> dict[str, Any]:
    """Load a fairseq checkpoint without executing code from it, and apply the registered upgrades.

    The checksum of the file is verified, or the CRCs of its zip archive if another program wrote it: one more
    sequential read. Files of torch before version 1.6 have neither, and a warning is logged.

    Args:
        file: path, or file opened for reading bytes.
        map_location: device of the tensors, as for ``torch.load``.

    Returns:
        the checkpoint's dict, with at least ``model`` and ``cfg`` or ``args``.

    Raises:
        CheckpointError: if the file is damaged, or its pickle has a global that is not allowed, or it is not a fairseq
            checkpoint.
        OSError: if it cannot be read at all; it names the file.
    """
    if isinstance(file, str | os.PathLike):
        with Path(file).open("rb") as opened:
            return read_checkpoint(opened, map_location)
    name = str(getattr(file, "name", "checkpoint"))
    try:
        found = _checked.get(Path(name).absolute()) or _refuse_damaged(file, name)
        if found is Bytes.RELEASED:
            state = _read_released(file, name, map_location)
        else:
            state = unpickle(file, name, map_location)
    except OSError as error:
        error.filename = error.filename or name
        raise
    checked = _check(state, name)
    for upgrade in (_refuse_expanded, *_upgrades, *_checks.get()):
        try:
            upgrade(checked)
        except ValueError as error:
            raise CheckpointError(f"{name}: {error}") from error
        except Exception as error:
            raise not_understood(name, error) from error
    return checked


def _refuse_damaged(file: BinaryIO, name: str) -> Bytes:
    found, reason = check_bytes(file)
    if found is Bytes.DAMAGED:
        raise CheckpointError(f"{name}: cannot be read as a checkpoint: {reason}. {_REMEDY}")
    if found is Bytes.NOTHING:
        logger.warning(f"{name}: written by torch before 1.6, without a checksum; damage may go unnoticed")
    return found


def _read_released(file: BinaryIO, name: str, map_location: Any) -> dict[str, Any]:
    try:
        state = read_released(file)
    except ValueError as error:
        raise CheckpointError(f"{name}: cannot be read as a checkpoint: {error}. {_REMEDY}") from error
    device = map_location if isinstance(map_location, str | torch.device) else "cpu"
    state["model"] = {key: tensor.to(device) for key, tensor in state["model"].items()}
    return state


def unpickle(file: str | BinaryIO, name: str, map_location: Any = "cpu", mmap: bool = False) -> Any:
    """Call ``torch.load`` with the allow-list, without executing code from the file.

    Args:
        file: path, or file opened for reading bytes.
        name: name of the file in messages.
        map_location: device of the tensors.
        mmap: memory-map the tensors, if the file's format allows it; only for a path.

    Raises:
        CheckpointError: if it cannot be read as a checkpoint.
        OSError: if it cannot be read at all.
    """
    try:
        with allowed_globals():
            mapped = mmap and zipfile.is_zipfile(file)  # of another file, torch would say that it cannot be mapped
            return torch.load(file, map_location=map_location, weights_only=True, mmap=mapped)
    except MemoryError as error:
        raise CheckpointError(f"{name}: it is damaged, or loading it needs more memory than is available") from error
    except Exception as error:  # torch raises a dozen types for invalid files
        # A wrong offset in the file causes a seek to before its beginning; any other OSError is the disk's.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise CheckpointError(f"{name}: {_explain(error)}") from error


def _explain(error: Exception) -> str:
    for refusal in _REFUSALS:
        found = refusal.search(str(error))
        if found:
            return (
                f"refused: it asks for {found[1]}, which is not among the types that fairseq's checkpoints contain; "
                "nothing of it was executed. If you trust the file and know what this is, allow it with "
                "torch.serialization.add_safe_globals in your --user-dir."
            )
    return f"cannot be read as a checkpoint: it is damaged or was never one{_reason(error)}. {_REMEDY}"


def _refuse_expanded(state: dict[str, Any]) -> None:
    """Raise if a weight has more elements than the file, which would need any amount of memory once it is copied."""
    for name, tensor in state["model"].items():
        if not isinstance(tensor, torch.Tensor):
            continue
        stored = tensor.layout == torch.strided and not tensor.is_meta
        if not stored or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ValueError(f"its weight {name}, of shape {tuple(tensor.shape)}, is not stored in it completely")


def not_understood(name: str, error: Exception) -> CheckpointError:
    """Return the error for a file with invalid content but no other sign of damage.

    Args:
        name: name of the file.
        error: the exception that the content caused.
    """
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return CheckpointError(f"{name}: its content is invalid [{said}]. {_REMEDY}")


def _reason(error: Exception) -> str:
    """Return the first sentence of torch's message, in brackets (the others are advice).

    Nothing if it is long, or only says which byte a pickle cannot begin with, as of most files that are none.
    """
    text = str(error)
    lines = text.partition(_UNPICKLER)[2].split("\n") if _UNPICKLER in text else text.split("\n")
    line = next(filter(None, map(str.strip, lines)), type(error).__name__)
    sentence = re.split(r"(?<=\w)\.(?:\s|$)", line)[0]
    unhelpful = len(sentence) > _LONGEST_REASON or sentence.startswith("Unsupported operand")
    return "" if unhelpful else f" [{sentence}]"


def _check(state: Any, name: str) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise CheckpointError(
            f"{name}: holds a {type(state).__name__}, but a fairseq checkpoint is a dict with "
            "'model' and 'cfg'. Give a file that fairseq-train or fairseq-hydra-train wrote."
        )
    missing = [" or ".join(keys) for keys in _NEEDED if all(state.get(key) is None for key in keys)]
    if missing:
        found = ", ".join(sorted(map(str, state))[:6]) or "nothing"
        raise CheckpointError(
            f"{name}: not a fairseq checkpoint: it lacks {', '.join(missing)} (it has: {found}). Give a file that "
            "fairseq-train or fairseq-hydra-train wrote; a bare state dict has to be put into one first."
        )
    return state
