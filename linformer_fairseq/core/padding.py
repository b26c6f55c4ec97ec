"""Padding of batches, which has to be on the right: the columns of E are absolute positions."""

from __future__ import annotations

import torch
from torch import Tensor


def is_padded(padding: Tensor, advice: str) -> bool:
    """Whether there is padding; with one wait for a GPU.

    Args:
        padding: bool (B, T), True at padding.
        advice: what the caller can do about padding elsewhere.

    Raises:
        ValueError: there is padding in front of tokens.
    """
    found, misplaced = torch.stack([padding.any(), (padding[:, :-1] & ~padding[:, 1:]).any()]).tolist()
    if misplaced:
        raise ValueError(
            "there is padding in front of tokens, but a Linformer's sequences are padded on the right, since the "
            f"columns of E are absolute positions; {advice}"
        )
    return bool(found)
