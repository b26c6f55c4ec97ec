"""Linformer for fairseq: ``fairseq-train --user-dir linformer_fairseq``.

Importing the package imports neither torch nor fairseq. fairseq imports ``models`` and ``tasks`` of a ``--user-dir``
itself; Python programs call `register`.
"""

from __future__ import annotations

import importlib
import logging

from linformer_fairseq import fairseq_import

fairseq_import.install()
# Silences fairseq's advice, on import, to install tensorboardX for a speech task.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)


def register() -> None:
    """Register the model, the optimizer and the task with fairseq, and apply the patches.

    Calling it again patches ``fairseq_cli.train``, if that was imported since, and has no other effect.

    Raises:
        ModuleNotFoundError: fairseq is not installed (pip install "linformer-fairseq[fairseq]").
    """
    for part in ("models", "tasks"):
        importlib.import_module(f"{__name__}.{part}")
    importlib.import_module(f"{__name__}.patches").install()


class _SearchPath(list[str]):
    """``__path__`` of the package, which calls `register` when fairseq looks into it.

    If a ``--user-dir`` has already been imported, fairseq only tests whether its path is in ``__path__``, and then
    assumes that it is registered; but perhaps only ``core`` was imported.
    """

    def __contains__(self, path: object) -> bool:
        found = super().__contains__(path)
        if found:
            register()
        return found


__path__ = _SearchPath(__path__)
