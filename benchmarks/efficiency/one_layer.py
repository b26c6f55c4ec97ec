"""Passes of one layer of RoBERTa-base size, ours or the dense rival's, for programs that measure a single layer."""

from __future__ import annotations

import argparse
import resource
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from benchmarks.efficiency import memory
from benchmarks.efficiency.checks import check_below_n, check_positions, say
from benchmarks.efficiency.machine import DTYPES, device_of, provenance, threads
from benchmarks.efficiency.models import plain
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Cell, Store
from benchmarks.efficiency.timing import all_in_rounds, seconds_of
from benchmarks.measuring import RESULTS
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection

Measured = Callable[[int, torch.dtype, torch.device], list[Cell]]
"""Function that measures one length: called with the length, data type and device, it returns the cells."""


def run(args: argparse.Namespace, kind: str, measured: Measured) -> int:
    """Measure each length and write the file of results; returns the exit status.

    Raises:
        UserError: the device is not available, an option is invalid, or the file already exists.
    """
    device, dtype = device_of(args.device), DTYPES[args.dtype]
    store = _store(args, kind, device)
    for n in args.lengths:
        store.add(*measured(n, dtype, device))
    store.write()
    say(f"written to {store.path}")
    return 0


def _store(args: argparse.Namespace, kind: str, device: torch.device) -> Store:
    check_below_n("--projected-dim", args.projected_dim, args.positions or min(args.lengths))
    check_positions(args.positions, args.lengths)
    used = threads(args.threads)
    names = ("dtype", "lengths", "positions", "projected_dim", "tokens", "rounds", "training")
    settings = {name: getattr(args, name) for name in names} | {"device": str(device), "threads": used}
    short = "short" if args.positions else ""
    words = [kind, short, "training" if args.training else "", device.type, args.dtype]
    out = args.out or RESULTS / ("_".join(filter(None, words)) + ".json")
    return Store(out, kind, settings, provenance(device, args.dtype))


def ours(n: int, k: int, dtype: torch.dtype, device: torch.device) -> LinformerEncoderLayer:
    """Our layer, with weights drawn with seed 0."""
    sizes = Sizes()
    torch.manual_seed(0)
    settings = LinformerSettings(sizes.width, sizes.heads, 1, n, k, projection="linear")
    shared = build_shared_projection(settings)
    assert shared is not None
    layer = LinformerEncoderLayer(settings, 0, shared, sizes.ffn).to(device, dtype)
    shared.to(device, dtype)
    return layer


def dense(dtype: torch.dtype, device: torch.device) -> plain.Layer:
    """The dense rival's layer, with torch's fused attention."""
    torch.manual_seed(0)
    return plain.layer(Sizes(), stores=False).to(device, dtype)


Layer = TypeVar("Layer", bound=nn.Module)


@dataclass
class Pass(Generic[Layer]):
    """A call of a layer on random input, with a backward pass in training.

    Args:
        layer: (B, T, C) to (B, T, C).
        n, tokens: positions of a sequence, and of all sequences together.
        dtype, device: of the input.
        training: whether there is a backward pass.
    """

    layer: Layer
    n: int
    tokens: int
    dtype: torch.dtype
    device: torch.device
    training: bool

    def __post_init__(self) -> None:
        self.layer.train(self.training)
        sequences = max(1, self.tokens // self.n)
        self.x = torch.randn(sequences, self.n, Sizes().width, device=self.device, dtype=self.dtype)
        self.x.requires_grad_(self.training)
        # As in an encoder, the output may overwrite the input; with gradients, `overwrite` has no effect.
        self.call: Callable[[Tensor], Tensor] = (
            partial(self.layer, overwrite=True)
            if isinstance(self.layer, LinformerEncoderLayer)
            else partial(self.layer, padding=None)
        )

    def __call__(self) -> None:
        with torch.set_grad_enabled(self.training):
            out = self.call(self.x)
            if self.training:
                out.backward(out.detach())

    def timed(self) -> tuple[float, int]:
        """Seconds and page faults of a call that follows an untimed one."""
        self()
        before = _page_faults()
        seconds = seconds_of(self, self.device)
        return seconds, _page_faults() - before

    def peak_bytes(self) -> int | None:
        """Peak memory of a call."""
        return memory.peak_of(self, self.device)


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def timed_in_rounds(
    calls: Mapping[str, Callable[[], tuple[float, int]]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds of each call by round, and the median of its page faults.

    Raises:
        RuntimeError, MemoryError: a call failed.
    """
    faults: dict[str, list[int]] = {name: [] for name in calls}

    def seconds(name: str) -> float:
        taken, found = calls[name]()
        faults[name].append(found)
        return taken

    taken = all_in_rounds({name: partial(seconds, name) for name in calls}, rounds)
    return taken, {name: statistics.median(found) for name, found in faults.items()}
