"""Checkpoints are read without executing them, and an invalid file is refused by name.

The file is first compared with its checksum or its CRCs, which torch does not look at: it would load a file with other
bytes in a tensor without a word. It is then read with ``weights_only=True`` and an allow-list.

Not covered: some of fairseq's other models ``eval()`` option strings of a checkpoint when they are built
(``fconv``), so a file from a stranger should be loaded only as a model that is known not to.
"""

import contextlib
import errno
import logging
import os
import re
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

# How torch's restricted unpickler words a refusal; the group is what the pickle wanted.
_REFUSALS = (
    re.compile(r"Unsupported global: GLOBAL (\S+)"),
    re.compile(r"unsupported GLOBAL (\S+)"),
    re.compile(r"unrecognized function (.+)"),
    re.compile(r"via `add_safe_globals`,? but got (.+)"),
)

# Where the reason begins in a message of that unpickler; before it stands advice to execute the file.
_UNPICKLER = "WeightsUnpickler error:"
_LONGEST_REASON = 200
_REMEDY = "If it was one, put it aside and give another one (fairseq-train takes it with --restore-file)."

# What fairseq itself takes for granted when it reads a checkpoint; old files have the second name.
_NEEDED = (("model",), ("cfg", "args"), ("optimizer_history", "best_loss"), ("extra_state", "epoch"))


class CheckpointError(UserError, ValueError):
    """A file is not a checkpoint that can be loaded; the message names the file and what to do."""


def register_upgrade(upgrade: Upgrade) -> None:
    """Have ``upgrade(state)`` change every checkpoint's dict in place before fairseq looks at it.

    A ValueError that it raises reaches the user with the file's name in front. Registering the same
    function again changes nothing.
    """
    if upgrade not in _upgrades:
        _upgrades.append(upgrade)


@contextlib.contextmanager
def already_checked(path: str | os.PathLike[str], found: Bytes) -> Iterator[None]:
    """Inside the ``with`` block a file that :func:`check_bytes` has just found whole is not read for that again.

    Args:
        path: the file.
        found: what :func:`check_bytes` said of it.
    """
    absolute = Path(path).absolute()
    _checked[absolute] = found
    try:
        yield
    finally:
        del _checked[absolute]


def read_checkpoint(file: str | os.PathLike[str] | BinaryIO, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a fairseq checkpoint that is whole, executing nothing of it, and apply the registered upgrades.

    The file is compared with the checksum in it, or with the CRCs of its zip archive where another program wrote it:
    one more sequential read. What torch wrote before version 1.6 has neither, and a warning says so.

    Args:
        file: path, or file opened for reading bytes.
        map_location: where the tensors go, as for ``torch.load``.

    Returns:
        the checkpoint's dict, with at least ``model`` and ``cfg`` or ``args``.

    Raises:
        CheckpointError: if the file is damaged, or the pickle wants to call something that fairseq checkpoints do
            not hold, or it is not a checkpoint of fairseq.
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
    for upgrade in _upgrades:
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
        logger.warning(f"{name}: written by torch before 1.6, without a checksum; damage in it may go unnoticed")
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
    """Read what ``torch.load`` reads, with the allow-list, executing nothing of it.

    Args:
        file: path, or file opened for reading bytes.
        name: of the file, for messages.
        map_location: where the tensors go.
        mmap: leave the tensors on the disk; for a path alone.

    Raises:
        CheckpointError: if it cannot be read as a checkpoint.
        OSError: if it cannot be read at all.
    """
    try:
        with allowed_globals():
            return torch.load(file, map_location=map_location, weights_only=True, mmap=mmap)
    except MemoryError as error:
        raise CheckpointError(f"{name}: it is damaged, or loading it needs more memory than there is") from error
    except Exception as error:  # torch raises a dozen types for files that are not its own
        # A wrong offset in the file gives a seek to before its beginning; anything else is the disk's.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise CheckpointError(f"{name}: {_explain(error)}") from error


def _explain(error: Exception) -> str:
    for refusal in _REFUSALS:
        found = refusal.search(str(error))
        if found:
            return (
                f"refused: it asks for {found[1]}, which no fairseq checkpoint needs; nothing of it was executed. "
                "If you trust the file and know what this is, allow it with "
                "torch.serialization.add_safe_globals in your --user-dir."
            )
    return f"cannot be read as a checkpoint: it is damaged or was never one{_reason(error)}. {_REMEDY}"


def not_understood(name: str, error: Exception) -> CheckpointError:
    """Make the error for invalid contents of a file whose damage nothing else shows.

    Args:
        name: of the file.
        error: what was raised by the program that met them.
    """
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return CheckpointError(f"{name}: what is in it cannot be understood [{said}]. {_REMEDY}")


def _reason(error: Exception) -> str:
    """Return what torch says, in brackets: its first sentence, as the others are advice; nothing where it is long."""
    text = str(error)
    lines = text.partition(_UNPICKLER)[2].split("\n") if _UNPICKLER in text else text.split("\n")
    line = next(filter(None, map(str.strip, lines)), type(error).__name__)
    sentence = re.split(r"(?<=\w)\.(?:\s|$)", line)[0]
    return f" [{sentence}]" if len(sentence) <= _LONGEST_REASON else ""


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
            "fairseq-train or fairseq-hydra-train wrote; bare weights have to be put into one first."
        )
    return state
