"""Training without a trainer: model, loss, backward pass and update in a loop, and nothing else."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.models.embeddings import PADDING

FIRST_MASKED, EVERY = 2, 7
"""Positions that are masked: those of fairseq's task dummy_masked_lm, about 15 %."""
_WORDS = 4
"""The first id of a word."""


class Batch(NamedTuple):
    """A batch of masked-language modelling, the same in every loop; all are (B, T)."""

    tokens: Tensor
    """Ids; the mask's is the last of the vocabulary."""
    target: Tensor
    """Ids before masking."""
    masked: Tensor
    """Bool, True where the loss is taken."""


def batch_of(sequences: int, length: int, vocabulary: int, padded: bool) -> Batch:
    """A batch of random words, drawn by a fixed seed.

    Args:
        sequences: B.
        length: T.
        vocabulary: symbols.
        padded: the first sequence has T words and the others T / 2 to T, padded on the right; otherwise all have T.
    """
    generator = torch.Generator().manual_seed(length)
    target = torch.randint(_WORDS, vocabulary - 1, (sequences, length), generator=generator)
    masked = torch.zeros(sequences, length, dtype=torch.bool)
    masked[:, FIRST_MASKED::EVERY] = True
    if padded:
        lengths = torch.randint((length + 1) // 2, length + 1, (sequences, 1), generator=generator)
        lengths[0] = length
        padding = torch.arange(length) >= lengths
        target, masked = target.masked_fill(padding, PADDING), masked & ~padding
    return Batch(target.masked_fill(masked, vocabulary - 1), target, masked)


class BareLoop:
    """Updates of a model on one batch.

    In another format than float32 it keeps what ``fairseq-train --bf16`` keeps: parameters, activations and gradients
    are in that format, and the optimizer works on float32 copies of the parameters.

    Args:
        model: token ids (B, T) and masked positions to logits (M, V).
        batch: what it is trained on.
        optimizer: ``adam`` is torch's AdamW as it comes, ``fused_adamw`` the fused one.
        dtype: of parameters, activations and gradients.
        device: of all.
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
