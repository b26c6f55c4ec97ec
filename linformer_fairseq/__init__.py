"""Linformer for fairseq: ``fairseq-train --user-dir linformer_fairseq``.

Importing the package mends fairseq (``compat``) and registers the model (``models``). Without fairseq nothing is
registered and ``linformer_fairseq.core`` works on torch alone.
"""

import importlib.util

if importlib.util.find_spec("fairseq"):
    from linformer_fairseq import compat

    compat.install()

    from linformer_fairseq import models

    __all__ = ["compat", "models"]
