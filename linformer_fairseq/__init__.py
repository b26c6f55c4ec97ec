"""Linformer for fairseq: ``fairseq-train --user-dir linformer_fairseq``.

Importing the package mends fairseq (``compat``), makes training safe against faults (``training``) and registers the
model (``models``), an optimizer (``optim``) and a task (``tasks``). Without fairseq nothing is registered and
``linformer_fairseq.core`` works on torch alone. The same holds, with a warning, where fairseq is installed but cannot
be imported, so that ``linformer doctor`` can say why.
"""

import importlib.util
import logging
import warnings

_has_fairseq = importlib.util.find_spec("fairseq") is not None
if _has_fairseq:
    # It recommends tensorboardX, which a task that nobody here uses would like, to everyone who imports fairseq.
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    # Another task makes the root logger say everything, where nothing has configured it; these say each step.
    for name in ("filelock", "hydra"):
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        import fairseq  # noqa: F401
    except Exception as error:  # anything: PyPI's fairseq fails with a ValueError on Python >= 3.11
        _has_fairseq = False
        warnings.warn(
            f"fairseq does not import ({type(error).__name__}: {error}); linformer_roberta is not registered. "
            "`linformer doctor` says what is wrong",
            RuntimeWarning,
            stacklevel=2,
        )

if _has_fairseq:
    from linformer_fairseq import compat, training

    compat.install()
    training.install()

    from linformer_fairseq import models, optim, tasks

    __all__ = ["compat", "models", "optim", "tasks", "training"]
