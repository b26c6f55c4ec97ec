"""Figure 1 of the paper: singular values of P for every layer and head, averaged over blocks of text, with controls.

The controls show what a curve says about training, and what any attention has:

* ``untrained``: the same encoder before training;
* ``random_logits``: softmax of independent normal logits, as large as the encoder's in each layer and head;
* ``uniform``: P with equal entries, whose rank is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linformer_fairseq.analysis.blocks import Chosen
from linformer_fairseq.analysis.encoder import Attention, Encoder
from linformer_fairseq.analysis.record import Record
from linformer_fairseq.analysis.resuming import measured
from linformer_fairseq.analysis.singular_values import (
    Floats,
    cumulative,
    logit_variance,
    needed,
    of_random_logits,
)
from linformer_fairseq.analysis.sums import Sums
from linformer_fairseq.files.progress import Progress

NAME = "spectrum.json"
SHARES = (0.9, 0.95, 0.99)
ENCODERS = ("checkpoint", "untrained")
"""What is averaged over the text."""
CURVES = (*ENCODERS, "random_logits", "uniform")
_DRAWS = 8
"""Of random logits for each head. A curve hardly varies between draws, as each averages over the whole matrix."""
_DIGITS = 5


@dataclass(frozen=True)
class Settings:
    """All that the result depends on."""

    model: str
    sha256: str
    """Of the weights."""
    data: str
    """Name of the text."""
    data_sha256: str
    length: int
    """T."""
    sentences: int
    """Blocks."""
    seed: int


def measure(
    encoder: Encoder, choose: Callable[[], Chosen], settings: Settings, out: Path, batch: int, command: str
) -> dict[str, Any]:
    """Measure the singular values of an encoder's attention, or go on with a stopped run.

    In memory are P of one batch and layer, and sums of (L, H, R) numbers.

    Args:
        encoder: the model.
        choose: chooses the blocks, where no earlier run has.
        settings: what is measured. With the same ones a finished result is returned as it is.
        out: folder of the result.
        batch: blocks at a time; the result does not depend on it, up to rounding.
        command: for the record.

    Returns:
        The record, which is written to `NAME` in ``out``.

    Raises:
        UserError: ``out`` has results of other settings, or memory is lacking.
        OSError: a file cannot be written.
    """

    def compute(sums: Sums) -> dict[str, Any]:
        for name in ENCODERS:
            _accumulate(name, encoder if name == "checkpoint" else encoder.untrained(settings.seed), sums, batch)
        return _found(encoder, settings, sums)

    return measured("spectrum", settings, out, choose, compute, batch, command)


def count_values(encoder: Encoder, length: int) -> int:
    """How many singular values P has for ``length`` tokens, in the layer that has most; by computing one input."""
    return min(length, max(map(max, _columns(encoder, torch.full((1, length), encoder.last)))))


def _accumulate(name: str, encoder: Encoder, sums: Sums, batch: int) -> None:
    """Add all blocks that are not yet in the sums."""
    rows = torch.from_numpy(sums.blocks)
    with Progress(f"SVD, {name}", len(rows), sums.count(name), "blocks") as progress:
        while (start := sums.count(name)) < len(rows):
            part = rows[start : start + batch]
            curves: list[Floats] = []
            variances: list[Floats] = []

            def see(layer: int, attention: Attention) -> None:
                # called before the loop goes on, so that the lists are those of this batch
                attention.check(layer)
                p = attention.probabilities
                curves.append(cumulative(p).sum(0).cpu().numpy())  # noqa: B023
                variances.append(logit_variance(p).sum(0).cpu().numpy())  # noqa: B023

            encoder.attend(part, see)
            count = len(part)
            sums.add(
                name,
                {
                    "curves": _of_equal_length(curves, fill=count),
                    "variance": np.stack(variances),
                },
                count,
            )
            progress.advance(len(part))


def _of_equal_length(curves: list[Floats], fill: float) -> Floats:
    """The curves of layers with different k, (H, R) each, as (L, H, R): all ``fill`` beyond the last singular value."""
    most = max(curve.shape[-1] for curve in curves)
    return np.stack([np.pad(c, ((0, 0), (0, most - c.shape[-1])), constant_values=fill) for c in curves])


def _columns(encoder: Encoder, block: Tensor) -> list[list[int]]:
    """The projected rows of each layer and head, for a block (1, T). P has columns of zeros for those that a head does
    not have."""
    columns: list[list[int]] = []
    encoder.attend(block, lambda _, found: columns.append((found.probabilities.amax((0, 2)) > 0).sum(-1).tolist()))
    return columns


def _found(encoder: Encoder, settings: Settings, sums: Sums) -> dict[str, Any]:
    means = {name: sums.mean(name, "curves") for name in ENCODERS}
    deviations = {name: np.sqrt(sums.mean(name, "variance")) for name in ENCODERS}
    columns = _columns(encoder, torch.from_numpy(sums.blocks[:1]))
    most = max(map(max, columns))
    means["random_logits"] = np.ones((*deviations["checkpoint"].shape, min(settings.length, most)))
    for layer, (deviation, found) in enumerate(zip(deviations["checkpoint"], columns, strict=True)):
        for count in set(found):  # heads with another k have other matrices
            heads = np.flatnonzero(np.array(found) == count)
            shape, seed = (settings.length, count), settings.seed + layer
            curves = of_random_logits(torch.from_numpy(deviation[heads]), shape, _DRAWS, seed).numpy()
            means["random_logits"][layer, heads, : curves.shape[-1]] = curves
    means["uniform"] = cumulative(torch.full((1, 1, settings.length, most), 1 / most)).numpy()
    return {
        "encoder": {
            **encoder.described(),
            "singular_values": means["checkpoint"].shape[-1],
            "projected_rows": columns,
        },
        "available_blocks": sums.about["available"],
        "logit_deviation": {name: found.round(_DIGITS).tolist() for name, found in deviations.items()},
        "needed": {
            name: {f"{share:g}": needed(mean, share).tolist() for share in SHARES} for name, mean in means.items()
        },
        **{f"curves_{name}": mean.round(_DIGITS).tolist() for name, mean in means.items()},
    }


def curves_of(record: Record, name: str) -> Floats:
    """The mean curve of each layer and head, (L, H, R); (1, 1, R) for ``uniform``."""
    return np.array(record[f"curves_{name}"])


def projected_rows(record: Record) -> list[int]:
    """The different numbers of rows that heads attend to, in order."""
    most = record["encoder"]["singular_values"]  # of all heads, in results without the numbers of each
    return sorted({rows for layer in record["encoder"].get("projected_rows", [[most]]) for rows in layer})


def default_index(record: Record) -> int | None:
    """A quarter of the singular values, the paper's 128 of 512; None if heads differ in their number: each then has a
    quarter of its own."""
    most: int = record["encoder"]["singular_values"]
    return max(1, most // 4) if len(projected_rows(record)) == 1 else None


def values_at(record: Record, name: str, index: int | None) -> Floats:
    """The curve of each layer and head at an index, from 1, (L, H); (1, 1) for ``uniform``.

    NaN where a head has fewer singular values. Without an index, it is a quarter of those of the head.
    """
    curves, length = curves_of(record, name), record["settings"]["length"]
    most = curves.shape[-1]
    rows = np.array(record["encoder"].get("projected_rows", [[most]])).clip(max=length)
    counts = np.broadcast_to(rows if name != "uniform" else most, curves.shape[:2])
    places = np.maximum(1, counts // 4) if index is None else np.full(counts.shape, index)
    found: Floats = np.take_along_axis(curves, places[..., None] - 1, axis=-1)[..., 0]
    return np.where(places <= counts, found, np.nan)


def share_name(index: int | None) -> str:
    """What `values_at` has."""
    return f"share of the {index} largest" if index else "share of the largest quarter"


def describe(record: Record) -> str:
    """The model, the length of the blocks and what they are of."""
    settings, encoder = record["settings"], record["encoder"]
    size = f"{encoder['layers']} layers, {encoder['heads']} heads"
    found = [f"{rows:,}" for rows in projected_rows(record)]
    rows = "" if encoder["is_dense"] else f" ({' to '.join([*found[:1], *found[1:][-1:]])} projected rows)"
    blocks = f"{settings['sentences']:,} blocks of {settings['length']:,} tokens{rows} of {settings['data']}"
    return f"{settings['model']} ({encoder['kind']}, {size}), {blocks}"
