"""Training without a trainer: model, loss, backward pass and update in a loop, and nothing else."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.efficiency.timing import seconds_of

OPTIMIZERS = ("adam", "fused_adamw")
FIRST_MASKED, EVERY = 2, 7
"""Positions that are masked: those of fairseq's task dummy_masked_lm, about 15 %."""


def masked_positions(n: int) -> int:
    """How many of n positions are masked."""
    return len(range(FIRST_MASKED, n, EVERY))


class BareLoop:
    """Updates of a model on one batch.

    Args:
        model: token ids (B, T) and masked positions to logits (M, V).
        batch: sequences.
        n: their length.
        vocabulary: symbols.
        optimizer: ``adam`` is torch's AdamW as it comes, ``fused_adamw`` the fused one.
        dtype: float32, or what autocast computes in; weights and optimizer have float32.
        device: of all.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: int,
        n: int,
        vocabulary: int,
        optimizer: str,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.model, self.dtype, self.device = model, dtype, device
        generator = torch.Generator().manual_seed(n)
        self.target = torch.randint(4, vocabulary - 1, (batch, n), generator=generator).to(device)
        self.masked = torch.zeros(batch, n, dtype=torch.bool, device=device)
        self.masked[:, FIRST_MASKED::EVERY] = True
        self.tokens = self.target.masked_fill(self.masked, vocabulary - 1)
        fused = True if optimizer == "fused_adamw" else None
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=fused
        )

    def update(self) -> Tensor:
        """One update; returns the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            logits = self.model(self.tokens, self.masked)
        loss = F.cross_entropy(logits.float(), self.target[self.masked])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def seconds(self) -> float:
        """Seconds of an update."""
        return seconds_of(partial(self.update), self.device)
