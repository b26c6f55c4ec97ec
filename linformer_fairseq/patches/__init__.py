"""Patches of fairseq 0.12: each module replaces functions of fairseq in place to change one behaviour.

They apply to both entry points (``fairseq-train`` and ``fairseq-hydra-train``), the hub interface and every task, not
only to ours. Those of how processes are started do not apply to ``fairseq-hydra-train``, which imports the plugin
later. The docstring of a module says what fairseq does and what the patch does; ``REPLACED`` lists the replaced
functions: (owner, name, make), where ``make`` takes the original and returns its replacement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from linformer_fairseq.patches import (
    amp_unscaling,
    atomic_copy,
    batching,
    bf16_devices,
    broadcast_state,
    buffered_batches,
    byte_pieces,
    checkpoint_reading,
    checkpoint_saving,
    copied_tasks,
    data_workers,
    ema_buffers,
    epoch_position,
    filler_batches,
    float32_weights,
    fresh_masks,
    log_file,
    loss_scale,
    lost_process,
    not_finite,
    not_learning,
    numpy_long,
    other_dictionary,
    padded_attention,
    patience,
    plateau,
    recovery,
    restore_errors,
    spawned_processes,
    stopping,
    torchrun_processes,
)

__all__ = ["PATCHES", "install", "replace"]

PATCHES: tuple[ModuleType, ...] = (
    # checkpoints
    checkpoint_reading,
    checkpoint_saving,
    atomic_copy,
    recovery,
    restore_errors,
    other_dictionary,
    broadcast_state,
    float32_weights,
    loss_scale,
    # data
    fresh_masks,
    epoch_position,
    buffered_batches,
    data_workers,
    numpy_long,
    byte_pieces,
    copied_tasks,
    # the run
    amp_unscaling,
    filler_batches,
    padded_attention,
    torchrun_processes,
    spawned_processes,
    bf16_devices,
    log_file,
    batching,
    ema_buffers,
    patience,
    plateau,
    lost_process,
    not_finite,
    not_learning,
    stopping,
)
"""All patches, in the order in which they are installed.

A later patch of a function wraps an earlier one. This order matters for two: `stopping` ends the process after
``validate_and_save``, so it must wrap `not_learning`, whose warning would otherwise be lost; and `bf16_devices` must
wrap `spawned_processes`, because fairseq starts no processes for a TPU.
"""

_MARK = "_linformer_patches"


def install() -> None:
    """Install all patches.

    Another call has no effect, with one exception: ``fairseq_cli.train`` is patched by the first call after its import,
    because importing it here would configure logging for the whole process.
    """
    for patch in PATCHES:
        for owner, name, make in patch.REPLACED:
            for found in _modules(owner) if isinstance(owner, str) else [owner]:
                replace(found, name, make)


def _modules(name: str) -> list[ModuleType]:
    """Return the module if it has been imported, and the running program if that is it: ``python -m NAME``, or its file
    (``python .../fairseq_cli/train.py``, for launchers)."""
    main = sys.modules.get("__main__")
    runs = getattr(getattr(main, "__spec__", None), "name", None) == name
    file = Path(getattr(main, "__file__", None) or "")  # python -c has none
    runs = runs or file.parts[-2:] == (*name.split(".")[:-1], f"{name.split('.')[-1]}.py")
    return [module for module in (sys.modules.get(name), main if runs else None) if module is not None]


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace ``owner.name`` with ``make(original)``; a second call with the same ``make`` has no effect.

    Several patches may replace the same function: each wraps the previous one.

    Args:
        owner: module or class that defines the function. A class must not inherit it: the mark of a patched base class
            would count as its own.
        name: the attribute to replace.
        make: takes the original and returns its replacement (functions: with functools.wraps); identified by its name.
            Static methods stay static.
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
