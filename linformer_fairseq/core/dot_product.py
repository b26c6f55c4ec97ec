"""Scaled dot-product attention: by torch's fused kernel, or in steps where that is faster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F

_cudnn = threading.Lock()
_were_enabled: list[bool] = []
"""For each `without_cudnn` that has begun and not ended, in any thread: whether it found the kernel enabled."""
_LARGEST_IN_TRAINING = 1 << 17
"""Largest number of scores per head and sequence for attention in steps in training without dropout."""
_MOST_ROWS_IN_TRAINING = 256
"""The same on processors without AMX: largest number of rows, at any length."""
_LARGEST_IN_INFERENCE = 3 << 22
"""Largest number of scores for attention in steps without gradients: 24 MiB in bf16, which stay in the last cache."""


def dot_product_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    dropout: float = 0.0,
    stored: bool = False,
    padded: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q K^T scale) V.

    Args:
        query: (B, H, t, D).
        keys, values: (B, H or 1, R, D). One head of them serves all heads of the queries.
        mask: bool, True for rows that are attended to, (B or 1, H or 1, 1, R); None: all.
        scale: factor of the scores.
        dropout: probability of dropping an attention weight.
        stored: also return the attention probabilities P.
        padded: sequences are padded, so that the next batch has another shape; with a mask, this is assumed.

    Returns:
        The output (B, H, t, D), and P (B, H, t, R) if ``stored``, at least in fp32.
    """
    heads, length = query.shape[1:3]
    in_steps = stored or _faster_in_steps(query, keys, dropout)
    if keys.size(1) < heads:  # the heads are more positions of a single head
        query = query.flatten(1, 2).unsqueeze(1)
    weights: Tensor | None = None
    if in_steps:
        mixed, weights = _in_steps(query, keys, values, mask, scale, dropout, stored)
    else:
        varied = padded or mask is not None
        with without_cudnn() if varied and not torch.compiler.is_compiling() else nullcontext():
            mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, dropout_p=dropout, scale=scale)
    if query.size(1) < heads:
        mixed = mixed.view(-1, heads, length, mixed.size(-1))
        weights = None if weights is None else weights.view(-1, heads, length, weights.size(-1))
    return mixed, weights


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Keeps `scaled_dot_product_attention` from cuDNN's kernel, which makes a plan for every new shape of its input.

    Padded batches nearly all have different shapes, and torch prefers this kernel on NVIDIA Hopper and Blackwell: it
    took up to 12 times as long as with another kernel (docs/performance.md, "On a GPU").
    """
    # The setting is the process's, not the thread's: the first to enter turns it off, the last to leave restores it.
    with _cudnn:
        _were_enabled.append(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        with _cudnn:
            enabled = _were_enabled.pop()
            if not _were_enabled:
                torch.backends.cuda.enable_cudnn_sdp(enabled)


def _in_steps(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, dropout: float, stored: bool
) -> tuple[Tensor, Tensor | None]:
    if keys.size(-2) < query.size(-2):
        keys = keys * scale
    else:
        query = query * scale
    scores = query @ keys.transpose(-2, -1)
    # The transforms of torch.func cannot follow an operation that writes to a given tensor.
    overwrites = not (stored or scores.requires_grad or torch._C._are_functorch_transforms_active())
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf")) if overwrites else scores.masked_fill(~mask, float("-inf"))
    if overwrites:
        weights = torch.softmax(scores, -1, out=scores)
    else:
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32) if stored else None)
    return F.dropout(weights, dropout).to(values.dtype) @ values, weights if stored else None


def _faster_in_steps(query: Tensor, keys: Tensor, dropout: float) -> bool:
    """Whether separate matrix products and softmax are faster than torch's fused kernel.

    In bf16 on a CPU, matrix products use the processor's bf16 units better than the fused kernel does, as long as the
    scores stay in the cache (benchmarks/NOTES.md): in the backward pass on any processor, in the forward pass on those
    without AMX, which the fused kernel uses well. With many more rows than positions, copying the keys of each head
    costs more than that gains. With dropout, torch has no fused kernel on a CPU, and computes and stores P in fp32.
    """
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or torch.compiler.is_compiling():
        return False
    if dropout > 0:
        return True
    length, rows = query.size(-2), keys.size(-2)
    if query.requires_grad:
        few = rows <= _MOST_ROWS_IN_TRAINING and not _has_amx()
        return few or length * rows <= _LARGEST_IN_TRAINING
    if _has_amx():
        return False
    return query.shape[:3].numel() * rows <= _LARGEST_IN_INFERENCE and (
        rows <= 2 * length or keys.size(1) < query.size(1)
    )


def _has_amx() -> bool:
    found: bool = torch.cpu._is_amx_tile_supported()
    return found
