"""Linformer for fairseq."""

import importlib.util

if importlib.util.find_spec("fairseq"):
    from linformer_fairseq import compat

    compat.install()
