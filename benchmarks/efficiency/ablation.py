"""One layer with one thing done differently at a time; what benchmarks/NOTES.md quotes.

    python -m benchmarks ablation --dtype bfloat16 --n 512
    python -m benchmarks ablation --dtype float32 --n 512 --training

A layer of RoBERTa-base size, k = 128, on the CPU or a GPU, in torch alone. All variants run in rounds in one process; a
figure above 1 means that the variant is slower than the layer as it is.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.efficiency.machine import DTYPES, device_of, threads
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.timing import in_rounds, quartiles, seconds_of, times_faster
from linformer_fairseq.core import (
    LinformerEncoderLayer,
    LinformerSettings,
    attention,
    build_shared_projection,
    encoder_layer,
    layer,
)
from linformer_fairseq.core.projection import LinearProjection, zero_padding

_Attention = attention.LinformerSelfAttention


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="(%(default)s)")
    parser.add_argument("--n", type=int, default=512, help="positions (%(default)s)")
    parser.add_argument("--projected-dim", type=int, default=128, help="rows k (%(default)s)")
    parser.add_argument("--tokens", type=int, default=16384, help="of a pass (%(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="(%(default)s)")
    parser.add_argument("--threads", type=int, help="of torch on the CPU (torch's choice)")
    parser.add_argument("--training", action="store_true", help="forward and backward pass")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    device, dtype, sizes = device_of(args.device), DTYPES[args.dtype], Sizes()
    count = threads(args.threads)
    torch.manual_seed(0)
    settings = LinformerSettings(sizes.width, sizes.heads, 1, args.n, args.projected_dim)
    shared = build_shared_projection(settings)
    assert shared is not None
    one = LinformerEncoderLayer(settings, 0, shared, sizes.ffn).to(device, dtype).train(args.training)
    shared.to(device, dtype)
    x = torch.randn(max(1, args.tokens // args.n), args.n, sizes.width, device=device, dtype=dtype)
    x.requires_grad_(args.training)

    def call() -> None:
        with torch.set_grad_enabled(args.training):
            out = one(x, overwrite=True)  # as in an encoder; with gradients it means nothing
            if args.training:
                out.backward(out.detach())

    def seconds(change: Change) -> Callable[[], float]:
        def timed() -> float:
            with change(one):
                return seconds_of(call, device)

        return timed

    variants = {name: seconds(change) for name, change in VARIANTS.items() if not (args.training and name in INFERENCE)}
    in_rounds(variants, 2)
    taken, failed = in_rounds(variants, args.rounds)
    for error in failed.values():
        raise error
    print(f"{args.dtype}, n = {args.n}, k = {args.projected_dim}, {x.size(0) * args.n:,} tokens, threads: {count}")
    print(f"{'as it is':<44} {1e3 * quartiles(taken['as it is'])[1]:8.1f} ms")
    for name in variants:
        if name != "as it is":
            first, median, third = times_faster(taken[name], taken["as it is"])
            print(f"{name:<44} {median:8.3f} times as long ({first:.3f} to {third:.3f})")
    return 0


Change = Callable[[LinformerEncoderLayer], contextlib.AbstractContextManager[Any]]


def _blocks(positions: int) -> Change:
    return lambda _: mock.patch.object(layer, "_block_size", lambda _: positions)


def _replaced(owner: Any, name: str, value: Any) -> Change:
    return lambda _: mock.patch.object(owner, name, value)


def _beside(parts: Any, x: Tensor, padding: Tensor | None, overwrite: bool) -> Tensor:
    """The layer with its output beside its input."""
    return encoder_layer(parts, x, padding)


def _upcast_gelu(x: Tensor) -> Tensor:
    """As fairseq's."""
    return F.gelu(x.float()).type_as(x)


def _stored(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0) -> Tensor:
    """Attention with P stored, in the dtype of its factors."""
    scores = (query * query.size(-1) ** -0.5) @ key.transpose(-2, -1)
    return scores.softmax(dim=-1) @ value


def _by_matmul(self: LinearProjection, count: int, x: Tensor, padding: Tensor | None = None) -> Tensor:
    return self.weight[:count, : x.size(1)] @ zero_padding(x, padding)


def _sequence_first(self: LinearProjection, count: int, x: Tensor, padding: Tensor | None = None) -> Tensor:
    """(K, T) x (T, B*C): one product of the whole batch, for which a batch-first X is copied."""
    batch, length, width = x.shape
    rows = self.weight[:count, :length] @ x.transpose(0, 1).reshape(length, -1)
    return rows.view(count, batch, width).transpose(0, 1)


def _keys_values_last(self: Any, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """W_k and W_v on n rows, E after them."""
    keys, values = (
        self._shared.first_rows(self._rows, F.linear(x, one.weight)) + one.bias for one in (self.k_proj, self.v_proj)
    )
    return keys, values, None


def _projected_twice(self: Any, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """E X once for keys and once for values."""
    owner = self._shared
    return self.k_proj(owner.first_rows(self._rows, x)), self.v_proj(owner.first_rows(self._rows, x)), None


def _one_product(self: Any, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values from one product with W_k and W_v side by side."""
    rows = self._shared.first_rows(self._rows, x)
    linears = (self.k_proj, self.v_proj)
    weight, bias = torch.cat([one.weight for one in linears]), torch.cat([one.bias for one in linears])
    keys, values = F.linear(rows, weight, bias).chunk(2, dim=-1)
    return keys, values, None


def _split_any(self: Any, x: Tensor) -> Tensor:
    return x.unflatten(2, (self.settings.num_heads, -1)).transpose(1, 2)


VARIANTS: dict[str, Change] = {
    "as it is": lambda _: contextlib.nullcontext(),
    "no blocks": _blocks(10**9),
    **{f"blocks of {size}": _blocks(size) for size in (512, 1024, 4096, 8192)},
    "output beside its input": _replaced(layer, "encoder_layer", _beside),
    "gelu through fp32, as fairseq's": lambda one: mock.patch.object(one, "activation_fn", _upcast_gelu),
    "P stored": _replaced(F, "scaled_dot_product_attention", _stored),
    "E X by matmul": _replaced(LinearProjection, "first_rows", _by_matmul),
    "E X as one product of the batch": _replaced(LinearProjection, "first_rows", _sequence_first),
    "E X twice": _replaced(_Attention, "_projected_keys_values", _projected_twice),
    "W before E": _replaced(_Attention, "_projected_keys_values", _keys_values_last),
    "W_k and W_v in one product": lambda _: mock.patch.multiple(
        _Attention, _projected_keys_values=_one_product, _split_heads=_split_any
    ),
}
INFERENCE = {name for name in VARIANTS if "block" in name} | {"output beside its input"}
"""What makes no difference where gradients are wanted."""
