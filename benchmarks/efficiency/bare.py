"""Training without a trainer: a loop with only forward pass, loss, backward pass and update."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.tokens import random_tokens
from linformer_fairseq.files.dictionary import PAD

FIRST_MASKED, EVERY = 2, 7
"""The first masked position and the distance to the next, as in fairseq's task dummy_masked_lm: about 15 %."""


class Batch(NamedTuple):
    """A batch for masked language modelling, the same in both loops; all tensors are (B, T)."""

    tokens: Tensor
    """Ids; that of the mask is the last of the vocabulary."""
    target: Tensor
    """Ids before masking."""
    masked: Tensor
    """Bool, True at positions that contribute to the loss."""


def batch_of(sequences: int, length: int, vocabulary: int, padded: bool) -> Batch:
    """A batch of random words; for the arguments see `random_tokens`."""
    target = random_tokens(sequences, length, vocabulary, padded)
    masked = torch.zeros(sequences, length, dtype=torch.bool)
    masked[:, FIRST_MASKED::EVERY] = True
    masked &= target.ne(PAD)
    return Batch(target.masked_fill(masked, vocabulary - 1), target, masked)


class BareLoop:
    """Updates of a model on one batch.

    With a data type other than float32, it works like ``fairseq-train --bf16``: parameters, activations and gradients
    have that type, and the optimizer updates float32 copies of the parameters.

    Args:
        model: token ids (B, T) and masked positions to logits (M, V).
        batch: the batch of every update.
        optimizer: ``adam`` is torch's AdamW with its defaults, ``fused_adamw`` the fused one.
        dtype: of parameters, activations and gradients.
        device: of all tensors.
    """

    def __init__(
        self, model: nn.Module, batch: Batch, optimizer: str, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.model = model.to(device, dtype)
        self.batch = Batch(*(part.to(device) for part in batch))
        self.parameters: list[Tensor] = list(model.parameters())
        copies = [parameter.detach().float() for parameter in self.parameters]
        self.optimized = self.parameters if dtype == torch.float32 else copies
        self.optimizer = torch.optim.AdamW(
            self.optimized,
            lr=1e-4,
            betas=(0.9, 0.98),
            eps=1e-6,
            weight_decay=0.01,
            fused=True if optimizer == "fused_adamw" else None,
        )

    def update(self) -> Tensor:
        """One update; returns the loss."""
        for parameter in self.parameters:
            parameter.grad = None
        logits = self.model(self.batch.tokens, self.batch.masked)
        loss = F.cross_entropy(logits.float(), self.batch.target[self.batch.masked])
        loss.backward()
        if self.optimized is self.parameters:
            self.optimizer.step()
        else:
            for copy, parameter in zip(self.optimized, self.parameters, strict=True):
                copy.grad = None if parameter.grad is None else parameter.grad.float()
            self.optimizer.step()
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.optimized)
        return loss.detach()
