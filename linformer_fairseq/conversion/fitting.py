"""E and F fitted to text by least squares.

Minimized is the sum over the layers of |A' - A|^2 / |A|^2, where A is the output of the source's attention (P V of each
head, then W^O), and A' that of the Linformer for the same input. A' depends on E through the softmax, and the normal
equations for F alone would have as many unknowns as F has numbers. It is therefore minimized by gradient descent (Adam)
on one batch of blocks after the other. All other weights stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from linformer_fairseq.conversion.comparison import batches, dense_attention
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.models import LinformerRobertaModel

STEPS = 100
"""Batches; after the last one the first follows."""
_RATE = 0.02
"""Learning rate at the beginning, as a share of the largest weight of a row; it falls to zero linearly."""


def fit(dense: LinformerRobertaModel, model: LinformerRobertaModel, rows: Tensor) -> None:
    """Fits E and F in place.

    Args:
        dense: the source, from `building.build_dense`.
        model: the Linformer, with the same n, E and F as they start; it has some.
        rows: (B, n) token ids.
    """
    encoder = model.encoder.sentence_encoder
    named = {name: weight for name, weight in encoder.named_parameters() if ".proj_" in f".{name}"}
    needed = {weight: weight.requires_grad for weight in model.parameters()}
    model.requires_grad_(False)
    for weight in named.values():
        weight.requires_grad_(True)
    groups = [{"params": [weight], "lr": _RATE * float(weight.detach().abs().max())} for weight in named.values()]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    parts = list(batches(rows))
    order = [parts[step % len(parts)] for step in range(STEPS)]
    with Progress("least squares", sum(part.numel() for part in order), items="tokens") as progress:
        for part in order:
            optimizer.zero_grad()
            for layer, (expected, x) in zip(encoder.layers, dense_attention(dense, part), strict=True):
                found, _ = layer.self_attn(x)
                ((found - expected).square().sum() / expected.square().sum()).backward()
            optimizer.step()
            schedule.step()
            progress.advance(part.numel())
    for weight, wanted in needed.items():
        weight.requires_grad_(wanted)
        weight.grad = None
