"""A lack of memory is an error for the user; other errors are not."""

from __future__ import annotations

import pytest
import torch

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.memory import enough_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("no"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),  # of a GPU's libraries
        RuntimeError("[enforce fail at alloc.cpp:1] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_lack_of_memory_says_what_to_do(error: Exception) -> None:
    with pytest.raises(UserError, match="--batch 8: try") as raised, enough_memory("--batch 8: try a smaller one"):
        raise error
    assert "enforce" not in str(raised.value)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="shapes"), enough_memory("--batch 8"):
        raise RuntimeError("shapes do not match")
