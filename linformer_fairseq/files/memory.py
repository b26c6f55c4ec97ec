"""Lack of memory as an error for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linformer_fairseq.files.errors import UserError

# torch's error on a CPU has no class of its own, and that of a GPU is a RuntimeError, too.
_TORCH = ("can't allocate memory", "out of memory")


@contextmanager
def enough_memory(hint: str) -> Iterator[None]:
    """Turn a lack of memory in the block into an error that says what to do.

    Raises:
        UserError: there was not enough memory; the message ends with ``hint``.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = " ".join(str(error).split())
        text = text[max(0, text.find("DefaultCPUAllocator")) :]  # before it is a line of torch's own source
        if isinstance(error, RuntimeError) and not any(part in text for part in _TORCH):
            raise
        raise UserError(f"not enough memory{f' ({text[:160]})' if text else ''}; {hint}") from error
