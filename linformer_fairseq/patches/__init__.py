"""Patches of fairseq 0.12: each file replaces functions of fairseq in place, for one behaviour.

Both entry points (``fairseq-train`` and ``fairseq-hydra-train``), the hub interface and every task have them then,
not only ours. A file says what fairseq does and what the patch does, and lists in ``REPLACED`` what it replaces:
(owner, name, make), where ``make`` gets the function that is there and returns the one to put in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from linformer_fairseq.patches import (
    atomic_copy,
    batching,
    bf16_devices,
    broadcast_state,
    byte_pieces,
    checkpoint_reading,
    checkpoint_saving,
    data_workers,
    epoch_position,
    fresh_masks,
    log_file,
    lost_process,
    not_finite,
    not_learning,
    numpy_long,
    recovery,
    restore_errors,
    stopping,
)

__all__ = ["PATCHES", "install", "replace"]

PATCHES: tuple[ModuleType, ...] = (
    # checkpoints
    checkpoint_reading,
    checkpoint_saving,
    atomic_copy,
    recovery,
    restore_errors,
    broadcast_state,
    # data
    fresh_masks,
    epoch_position,
    data_workers,
    numpy_long,
    byte_pieces,
    # the run
    bf16_devices,
    log_file,
    batching,
    lost_process,
    not_finite,
    not_learning,
    stopping,
)
"""All of them, in the order in which they are installed.

A later one goes around an earlier one of the same function. That matters once: `stopping` ends the process where it
returns from ``validate_and_save``, so it comes after `not_learning`, whose warning would be lost otherwise.
"""

_MARK = "_linformer_patches"


def install() -> None:
    """Install every patch.

    Calling it again changes nothing, with one exception: the training program, ``fairseq_cli.train``, is patched only
    once it has been imported, because importing it sets up logging for the whole process.
    """
    for patch in PATCHES:
        for owner, name, make in patch.REPLACED:
            found = sys.modules.get(owner) if isinstance(owner, str) else owner
            if found is not None:
                replace(found, name, make)


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace ``owner.name`` by ``make(original)``; a second call with the same ``make`` does nothing.

    Several patches may replace the same function: each goes around what is there.

    Args:
        owner: module or class that holds the function. A class must define it itself: a mark inherited
            from a base class would otherwise count as its own.
        name: the attribute to replace.
        make: gets what is there and returns the new one, a function with functools.wraps. Known by its name.
            Static methods are kept static.
    """
    held = vars(owner).get(name, getattr(owner, name))
    original = held.__func__ if isinstance(held, staticmethod) else held
    made_by = getattr(original, _MARK, ())
    maker = f"{make.__module__}.{make.__qualname__}"
    if maker in made_by:
        return
    patched = make(original)
    setattr(patched, _MARK, (*made_by, maker))
    setattr(owner, name, staticmethod(patched) if isinstance(held, staticmethod) else patched)
