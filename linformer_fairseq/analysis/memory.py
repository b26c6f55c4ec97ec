"""Lack of memory as an error for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from linformer_fairseq.files.errors import UserError


@contextmanager
def enough_memory(hint: str) -> Iterator[None]:
    """Turn a lack of memory in the block into an error that says what to do.

    Raises:
        UserError: there was not enough memory; the message ends with ``hint``.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise UserError(f"not enough memory ({' '.join(str(error).split())[:120]}); {hint}") from error
    except RuntimeError as error:  # torch's error on a CPU has no class of its own
        if "can't allocate memory" not in str(error):
            raise
        raise UserError(f"not enough memory ({' '.join(str(error).split())[:120]}); {hint}") from error
