"""`linformer benchmark profile`: time of one layer by operation, from torch.profiler."""

from __future__ import annotations

import argparse
from collections import defaultdict
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler

from benchmarks.efficiency import one_layer
from benchmarks.efficiency.cells import number
from benchmarks.efficiency.checks import say
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.timing import figures
from benchmarks.measuring import said
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table

_KINDS = {
    "matrix products": ("addmm", "mm", "bmm", "baddbmm", "mkldnn_linear", "_linear"),
    "attention": ("attention", "softmax"),
    "GELU": ("gelu",),
    "layer norms": ("layer_norm",),
    "dropout": ("dropout", "bernoulli"),
    "sums": ("add", "add_", "sum", "sub", "mul", "mul_"),
    "copies": ("copy_", "clone", "contiguous", "_to_copy"),
}
"""Parts of the names of operations, without ``aten::``; those in _WHOLE have to be the whole name."""
_WHOLE = {"mm", "bmm", "add", "add_", "sum", "sub", "mul", "mul_", "clone", "contiguous"}
BIASES, OTHER = "copies of biases", "other"
_PASSES = 3


def run(args: argparse.Namespace) -> int:
    """Measure both layers at each length; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    if args.device != "cpu":
        raise UserError(f"--device {args.device}: only a CPU can be profiled; on a GPU use its own profiler")
    return one_layer.run(args, "profile", partial(_cells, args))


def _cells(args: argparse.Namespace, n: int, dtype: torch.dtype, device: torch.device) -> list[Cell]:
    layers = {
        "ours": one_layer.ours(args.positions or n, args.projected_dim, dtype, device),
        "dense": one_layer.dense(dtype, device),
    }
    passes = {
        name: one_layer.Pass(layer, n, args.tokens, dtype, device, args.training) for name, layer in layers.items()
    }
    taken, faults = one_layer.timed_in_rounds({name: one.timed for name, one in passes.items()}, args.rounds)
    cells = []
    for name, one in passes.items():
        cell: Cell = {"layer": name, "n": one.n, "tokens": one.x.size(0) * one.n, **figures(taken[name])}
        cells.append(cell | {"shares": shares(one), "page_faults": faults[name], "peak_bytes": one.peak_bytes()})
        say(f"n = {one.n}, {name}: {1e3 * cell['seconds']:,.1f} ms")
    return cells


def shares(one: one_layer.Pass[nn.Module]) -> dict[str, float]:
    """The share of each kind of operation in the total self time."""
    one()
    with profiler(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(_PASSES):
            one()
    took: dict[str, float] = defaultdict(float)
    for event in found.events() or []:
        took[_kind(event)] += float(event.self_cpu_time_total)
    whole = sum(took.values())
    return {kind: took[kind] / whole for kind in (*_KINDS, BIASES, OTHER) if took[kind]}


def _kind(event: Any) -> str:
    name = event.name.removeprefix("aten::")
    kind = next((k for k, parts in _KINDS.items() if any(_is(part, name) for part in parts)), OTHER)
    if kind == "copies" and event.cpu_parent is not None and event.cpu_parent.name in ("aten::addmm", "aten::linear"):
        return BIASES  # to which the product is then added
    return kind


def _is(part: str, name: str) -> bool:
    return name == part if part in _WHOLE else part in name


def table(result: dict[str, Any]) -> list[str]:
    """A column for each layer and length."""
    settings, cells = result["settings"], result["cells"]
    kinds = [kind for kind in (*_KINDS, BIASES, OTHER) if any(kind in cell["shares"] for cell in cells)]
    rows = [["ms", *(number(1e3 * cell["seconds"]) for cell in cells)]]
    rows += [[kind, *(f"{100 * cell['shares'].get(kind, 0):.1f} %" for cell in cells)] for kind in kinds]
    peaks = [None if cell["peak_bytes"] is None else cell["peak_bytes"] / cell["tokens"] / 1024 for cell in cells]
    rows.append(["peak memory, KiB a token", *map(number, peaks)])
    rows.append(["page faults", *(f"{cell['page_faults']:,.0f}" for cell in cells)])
    what = "forward and backward pass" if settings["training"] else "forward pass"
    return [
        f"One layer, {settings['dtype']}, k = {settings['projected_dim']}, {what} of {settings['tokens']:,} tokens, "
        f"threads: {settings['threads']}; shares of the self CPU time of all operations.",
        "",
        *markdown_table([["", *(f"{cell['layer']}, T = {cell['n']:,}" for cell in cells)], *rows]),
        "",
        f"({said(result['provenance'])})",
    ]
