"""Linformer for fairseq: ``fairseq-train --user-dir linformer_fairseq``.

Importing the package loads nothing else, neither torch nor fairseq. fairseq imports ``models`` and ``tasks`` of a
``--user-dir`` by itself; Python programs call `register`.
"""

from __future__ import annotations

import importlib
import logging

# Whoever imports fairseq after this is spared its advice to install tensorboardX, which a speech task would use.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)


def register() -> None:
    """Make the model, the optimizer and the task known to fairseq, with the patches that they need.

    A second call changes nothing.

    Raises:
        ModuleNotFoundError: fairseq is not installed (pip install "linformer-fairseq[fairseq]").
    """
    for part in ("models", "tasks"):
        importlib.import_module(f"{__name__}.{part}")


class _SearchPath(list[str]):
    """``__path__`` of the package.

    Of a ``--user-dir`` that is imported already fairseq asks only whether its path is in here, and takes it for
    registered then. It may be that ``core`` alone was imported.
    """

    def __contains__(self, path: object) -> bool:
        found = super().__contains__(path)
        if found:
            register()
        return found


__path__ = _SearchPath(__path__)
