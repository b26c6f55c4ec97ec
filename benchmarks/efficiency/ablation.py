"""`linformer benchmark ablation`: time of one layer with one part changed at a time."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.efficiency import one_layer
from benchmarks.efficiency.cells import number
from benchmarks.efficiency.checks import say
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.timing import quartiles, times_faster
from benchmarks.measuring import said
from linformer_fairseq.core import (
    LinformerEncoderLayer,
    attention,
    build_shared_projection,
    convolution,
    dot_product,
    encoder_layer,
    layer,
)
from linformer_fairseq.core.flops import Order
from linformer_fairseq.core.projection import LinearProjection, zero_padding
from linformer_fairseq.files.markdown import markdown_table

_Attention = attention.LinformerSelfAttention


def run(args: argparse.Namespace) -> int:
    """Measure all variants at each length; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    return one_layer.run(args, "ablation", partial(_cells, args))


def _cells(args: argparse.Namespace, n: int, dtype: torch.dtype, device: torch.device) -> list[Cell]:
    names = [name for name in VARIANTS if name not in (INFERENCE if args.training else TRAINING)]
    layer = one_layer.ours(args.positions or n, args.projected_dim, dtype, device)
    one = one_layer.Pass(layer, n, args.tokens, dtype, device, args.training)

    def timed(name: str) -> tuple[float, int]:
        with VARIANTS[name](one.layer):
            return one.timed()

    taken, faults = one_layer.timed_in_rounds({name: partial(timed, name) for name in names}, args.rounds)
    cells: list[Cell] = []
    for name in names:
        with VARIANTS[name](one.layer):
            peak = one.peak_bytes()
        first, median, third = times_faster(taken[name], taken[AS_IT_IS])
        cells.append(
            {
                "variant": name,
                "n": one.n,
                "tokens": one.x.size(0) * one.n,
                "seconds": quartiles(taken[name])[1],
                "all_seconds": taken[name],
                "times_as_long": median,
                "times_as_long_q1": first,
                "times_as_long_q3": third,
                "page_faults": faults[name],
                "peak_bytes": peak,
            }
        )
        say(f"n = {one.n}, {name}: {median:.3f} times as long ({first:.3f} to {third:.3f})")
    return cells


def table(result: dict[str, Any]) -> list[str]:
    """The variants, with a column for the time at each length."""
    settings = result["settings"]
    lengths = settings["lengths"]
    found = {(cell["variant"], cell["n"]): cell for cell in result["cells"]}
    rows = []
    for name in dict.fromkeys(cell["variant"] for cell in result["cells"]):
        row = [name]
        for n in lengths:
            cell = found[name, n]
            low, high = cell["times_as_long_q1"], cell["times_as_long_q3"]
            time = f"{cell['times_as_long']:.2f} ({low:.2f} to {high:.2f})"
            row.append(f"{1e3 * cell['seconds']:,.0f} ms" if name == AS_IT_IS else time)
            peak = cell["peak_bytes"]
            row += ["-" if peak is None else number(peak / cell["tokens"] / 1024), f"{cell['page_faults']:,.0f}"]
        rows.append(row)
    head = [f"{what}, T = {length:,}" for length in lengths for what in ("times as long", "KiB a token", "page faults")]
    n = f" for n = {settings['positions']:,}" if settings["positions"] else ""
    what = "forward and backward pass" if settings["training"] else "forward pass"
    return [
        f"One layer{n}, {settings['dtype']}, k = {settings['projected_dim']}, {what} of {settings['tokens']:,} tokens, "
        f"{settings['rounds']} rounds, threads: {settings['threads']}. 'Times as long' is the ratio to the unchanged "
        "layer ('as it is'): median over the rounds, and quartiles.",
        "",
        *markdown_table([["variant", *head], *rows]),
        "",
        f"({said(result['provenance'])})",
    ]


Projected = tuple[Tensor, Tensor, None]
"""What `_keys_values` returns if the keys and values are projected."""
Change = Callable[[LinformerEncoderLayer], contextlib.AbstractContextManager[Any]]


def _blocks(positions: int) -> Change:
    return lambda _: mock.patch.object(layer, "_block_size", lambda _: positions)


def _replaced(owner: Any, name: str, value: Any) -> Change:
    return lambda _: mock.patch.object(owner, name, value)


def _both(first: Change, second: Change) -> Change:
    @contextlib.contextmanager
    def change(one: LinformerEncoderLayer) -> Iterator[None]:
        with first(one), second(one):
            yield

    return change


def _beside(parts: Any, x: Tensor, padding: Tensor | None, overwrite: bool, first_only: bool) -> Tensor:
    """The layer without overwriting its input."""
    return encoder_layer(parts, x, padding, first_only=first_only)


def _upcast_gelu(x: Tensor) -> Tensor:
    """GELU through fp32, as in fairseq."""
    return F.gelu(x.float()).type_as(x)


def _by_matmul(self: LinearProjection, count: int, x: Tensor, padding: Tensor | None = None) -> Tensor:
    return self.weight[:count, : x.size(1)] @ zero_padding(x, padding)


def _sequence_first(self: LinearProjection, count: int, x: Tensor, padding: Tensor | None = None) -> Tensor:
    """(K, T) x (T, B*C): one product for the whole batch, for which the batch-first X is copied."""
    batch, length, width = x.shape
    rows = self.weight[:count, :length] @ x.transpose(0, 1).reshape(length, -1)
    return rows.view(count, batch, width).transpose(0, 1)


def _order(order: Order) -> Change:
    return _replaced(attention, "cheapest_order", lambda *_: order)


def _projected_twice(self: Any, first: Any, second: Any, x: Tensor, padding: Tensor | None) -> Projected:
    """Computes E X once for keys and once for values."""
    return self.k_proj(self._project(first, x, padding)), self.v_proj(self._project(first, x, padding)), None


def _one_product(self: Any, first: Any, second: Any, x: Tensor, padding: Tensor | None) -> Projected:
    """Keys and values from one product with W_k and W_v concatenated."""
    rows = self._project(first, x, padding)
    linears = (self.k_proj, self.v_proj)
    weight, bias = torch.cat([one.weight for one in linears]), torch.cat([one.bias for one in linears])
    keys, values = F.linear(rows, weight, bias).chunk(2, dim=-1)
    return keys, values, None


def _split_any(self: Any, x: Tensor) -> Tensor:
    return x.unflatten(2, (self.settings.num_heads, -1)).transpose(1, 2)


def _other_rows(**options: Any) -> Change:
    """The attention built with other options of the model."""

    def change(one: LinformerEncoderLayer) -> contextlib.AbstractContextManager[Any]:
        settings = dataclasses.replace(one.self_attn.settings, **options)
        shared = build_shared_projection(settings)
        other = _Attention(settings, 0, shared)
        for module in (other, shared):
            assert module is not None
            module.to(one.self_attn.q_proj.weight).train(one.training)
        return mock.patch.object(one, "self_attn", other)

    return change


_FITTING: dict[str, Any] = {"projection": "convolution", "row_weights": "affine", "short_inputs": "stretch"}
OTHER_MODELS: dict[str, Change] = {
    "affine rows": _other_rows(row_weights="affine"),
    "E laid over short inputs": _other_rows(short_inputs="stretch"),
    "affine rows, E laid over short inputs": _other_rows(row_weights="affine", short_inputs="stretch"),
    "convolution": _other_rows(projection="convolution"),
    "convolution by product and sum": _both(
        _other_rows(projection="convolution"), _replaced(convolution, "_convolves_fast", lambda _: False)
    ),
    "convolution, affine, windows that fit": _other_rows(**_FITTING),
    "the same with windows that overlap": _other_rows(**_FITTING, kernel_strides=2),
}
"""Variants that compute another function, to measure the cost of other options of the model."""
AS_IT_IS = "as it is"
VARIANTS: dict[str, Change] = {
    AS_IT_IS: lambda _: contextlib.nullcontext(),
    "no blocks": _blocks(10**9),
    **{f"blocks of {size}": _blocks(size) for size in (512, 1024, 4096, 8192)},
    "blocks computed again": lambda one: mock.patch.object(one, "recompute", True),
    "output beside its input": _replaced(layer, "encoder_layer", _beside),
    "gelu through fp32, as fairseq's": lambda one: mock.patch.object(one, "activation_fn", _upcast_gelu),
    "attention by torch's kernel": _replaced(dot_product, "_faster_in_steps", lambda *_: False),
    "E X by matmul": _replaced(LinearProjection, "first_rows", _by_matmul),
    "E X as one product of the batch": _replaced(LinearProjection, "first_rows", _sequence_first),
    "E X twice": _replaced(_Attention, "_keys_values", _projected_twice),
    "E before W": _order(Order.PROJECTION),
    "W before E": _order(Order.MAPS),
    "through T x T scores": _order(Order.SCORES),
    **OTHER_MODELS,
    "W_k and W_v in one product": lambda _: mock.patch.multiple(
        _Attention, _keys_values=_one_product, _split_heads=_split_any
    ),
}
TRAINING = {"blocks computed again"}
"""Variants that make no difference without gradients."""
INFERENCE = {name for name in VARIANTS if "block" in name} - TRAINING | {
    "output beside its input",
    "convolution by product and sum",
}
"""Variants that make no difference with gradients."""
