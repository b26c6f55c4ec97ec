"""Lack of memory: recognized, and as an error for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linformer_fairseq.files.errors import UserError

_TORCH = ("can't allocate memory", "out of memory")
"""Texts of torch's errors: that of a CPU is an ordinary RuntimeError, and so are some of a GPU's libraries."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that there was not enough memory, of the machine or of a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, without importing it
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in _TORCH)


@contextmanager
def enough_memory(hint: str) -> Iterator[None]:
    """Turn a lack of memory in the block into an error that says what to do.

    Raises:
        UserError: there was not enough memory; the message ends with ``hint``.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        text = " ".join(str(error).split())
        text = text[max(0, text.find("DefaultCPUAllocator")) :]  # before it is a line of torch's own source
        raise UserError(f"not enough memory{f' ({text[:160]})' if text else ''}; {hint}") from error
