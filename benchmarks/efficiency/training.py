"""Speed of training, bare and through fairseq's trainer: tokens per second, and MFU against the device's measured rate.

    python -m benchmarks training --lengths 512 1024 4096 --models linformer linformer_compiled roberta_fairseq
    python -m benchmarks training --models linformer_core roberta_sdpa_core          without fairseq

The bare loop is forward pass, masked-language-model loss on every 7th position, backward pass and torch's AdamW, its
models in rounds, half of the updates before fairseq's turn and half after. fairseq's is fairseq-train in the same
process on its task dummy_masked_lm: the time between successive updates, with logging, iterator and clipping. With
--dtype bfloat16 the bare loop computes under autocast, fairseq with --bf16.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.efficiency import bare, fairseq_trainer, memory, operations, rate, sizes
from benchmarks.efficiency.errors import BenchmarkError
from benchmarks.efficiency.group import Variant, first_line
from benchmarks.efficiency.inference import RESULTS, say
from benchmarks.efficiency.machine import DTYPES, device_of, provenance, threads
from benchmarks.efficiency.models.registry import FAIRSEQ, MODELS, check_names
from benchmarks.efficiency.models.trainable import build_trainable
from benchmarks.efficiency.rate import Limit
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Cell, Store
from benchmarks.efficiency.timing import in_rounds, quartiles

TRAINABLE = [name for name, known in MODELS.items() if known.trains]
DEFAULT = ["linformer", "linformer_compiled", "roberta_fairseq"]
WARM_UP = 3
"""Updates before those that count."""
KEYS = (
    *("model", "n", "k", "path", "status", "reason", "batch", "tokens", "dropout"),
    *("seconds", "seconds_q1", "seconds_q3", "all_seconds", "tokens_per_second"),
    *("operations", "operations_per_second", "limit_operations_per_second", "share_of_limit"),
    *("times_bare", "peak_bytes"),
)
"""Of every cell; None where there is nothing to say."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="(%(default)s)")
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N", default=[512], help="positions n (512)")
    parser.add_argument("--projected-dim", type=int, metavar="K", default=128, help="rows k (%(default)s)")
    parser.add_argument(
        "--models", nargs="+", metavar="NAME", default=DEFAULT, help=f"of {', '.join(TRAINABLE)} ({' '.join(DEFAULT)})"
    )
    parser.add_argument("--tokens", type=int, default=8192, help="of an update (%(default)s)")
    parser.add_argument("--optimizer", choices=bare.OPTIMIZERS, default="adam", help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=10, help="that count, at least 2 (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of fairseq's models (%(default)s)")
    parser.add_argument("--paths", nargs="+", choices=("bare", "trainer"), default=["bare", "trainer"], help="(both)")
    parser.add_argument("--threads", type=int, help="of torch on the CPU (torch's choice)")
    parser.add_argument("--out", type=Path, help="file of the results (results/efficiency/training_...json)")
    parser.add_argument("--resume", action="store_true", help="go on with that file")
    sizes.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure all that was asked for; returns the exit status.

    Raises:
        BenchmarkError: something that the user can mend.
    """
    check_names(args.models)
    _check(args)
    device, size = device_of(args.device), sizes.sizes_of(args)
    torch_threads = threads(args.threads)
    kept = ("lengths", "projected_dim", "models", "tokens", "optimizer", "updates", "dropout", "paths", "dtype")
    settings = {name: getattr(args, name) for name in kept}
    settings |= {"device": str(device), "threads": torch_threads, **asdict(size)}
    out = args.out or RESULTS / f"training_{device.type}_{args.dtype}_{args.optimizer}.json"
    store = Store(out, "training", settings, provenance(device, args.dtype), args.resume)
    for n in args.lengths:
        if any(cell["n"] == n for cell in store.cells):
            say(f"n = {n}: measured already")
        else:
            with memory.no_more_than_there_is(device):
                cells = Length(n, args, size, device).measure()
            store.add(*cells)
    say(f"written to {store.path}")
    return 0


def _check(args: argparse.Namespace) -> None:
    for name in args.models:
        if not MODELS[name].trains:
            raise BenchmarkError(f"model {name} is for inference only; training has {', '.join(TRAINABLE)}")
    for option in ("lengths", "models"):
        values = getattr(args, option)
        if len(set(values)) < len(values):
            raise BenchmarkError(f"--{option} names something twice: {' '.join(map(str, values))}")
    if min(args.lengths) <= args.projected_dim and any(MODELS[name].projects for name in args.models):
        raise BenchmarkError(f"n = {min(args.lengths)} needs a --projected-dim k < n, not {args.projected_dim}")
    if min(args.lengths) <= bare.FIRST_MASKED or args.projected_dim < 1:
        raise BenchmarkError(f"--lengths begin at {bare.FIRST_MASKED + 1}, and --projected-dim at 1")
    if args.vocabulary < max(args.lengths) + 6:
        raise BenchmarkError(
            f"--vocabulary {args.vocabulary} is too small: fairseq's dummy task has as many words as n"
        )
    if args.updates < 2 or args.tokens < 1 or not 0 <= args.dropout < 1:
        raise BenchmarkError("expected --updates of at least 2, --tokens of at least 1 and --dropout from 0 to below 1")


@dataclass
class Length:
    """The cells of one length."""

    n: int
    args: argparse.Namespace
    size: Sizes
    device: torch.device

    def measure(self) -> list[Cell]:
        """Of all models."""
        variants = [Variant(m, self.args.projected_dim if MODELS[m].projects else None) for m in self.args.models]
        loops, cells, peaks = self._bare_loops(variants) if "bare" in self.args.paths else ({}, [], {})
        half = self.args.updates // 2
        taken, limits = self._bare_rounds(loops, half, cells)
        trained: dict[Variant, list[float]] = {}
        for variant in variants:
            if "trainer" in self.args.paths and MODELS[variant.model].needs == FAIRSEQ:
                try:
                    trained[variant] = self._trained(variant)
                except (BenchmarkError, RuntimeError, MemoryError) as error:
                    cells.append(self._not_measured(variant, "trainer", error))
                memory.release(self.device)
        later, limits_later = self._bare_rounds(loops, self.args.updates - half, cells)
        taken = {variant: taken[variant] + values for variant, values in later.items()}
        limit = Limit([*limits.by_round, *limits_later.by_round])
        for variant, values in taken.items():
            cell = self._cell(variant, "bare", values, limit.median) | {"peak_bytes": peaks[variant]}
            cells.append(cell | {"share_of_limit": limit.share(cell["operations"], values)})
        for variant, values in trained.items():
            cell = self._cell(variant, "trainer", values, limit.median)
            if variant in taken:
                cell["times_bare"] = cell["seconds"] / quartiles(taken[variant])[1]
            cells.append(cell)
        loops.clear()
        memory.release(self.device)
        torch._dynamo.reset()
        for cell in cells:
            rate_said = f"{cell['tokens_per_second']:,.0f} tokens/s" if cell["status"] == "ok" else cell["reason"]
            say(f"n = {self.n}, {cell['model']}, {cell['path']}: {rate_said}")
        return cells

    @property
    def _batch(self) -> int:
        return max(1, int(self.args.tokens) // self.n)

    def _bare_loops(
        self, variants: list[Variant]
    ) -> tuple[dict[Variant, bare.BareLoop], list[Cell], dict[Variant, int | None]]:
        loops: dict[Variant, bare.BareLoop] = {}
        peaks: dict[Variant, int | None] = {}
        failed: list[Cell] = []
        for variant in variants:
            try:
                loop = self._loop(variant)
                for _ in range(WARM_UP - 1):
                    loop.update()
                peaks[variant] = memory.peak_of(loop.update, self.device)
                loops[variant] = loop
            except (RuntimeError, MemoryError, ValueError) as error:
                failed.append(self._not_measured(variant, "bare", error))
                memory.release(self.device)
        return loops, failed, peaks

    def _loop(self, variant: Variant) -> bare.BareLoop:
        args = self.args
        model = build_trainable(variant.model, self.size, self.n, variant.k, args.dropout, self.device)
        dtype = DTYPES[args.dtype]
        return bare.BareLoop(model, self._batch, self.n, self.size.vocabulary, args.optimizer, dtype, self.device)

    def _bare_rounds(
        self,
        loops: dict[Variant, bare.BareLoop],
        rounds: int,
        cells: list[Cell],
    ) -> tuple[dict[Variant, list[float]], Limit]:
        """Seconds of each loop in each round, and the limit then; those that fail get their cell and go."""
        products = rate.calls(self.size, DTYPES[self.args.dtype], self.device)
        updates = {variant: loop.seconds for variant, loop in loops.items()}
        found, failed = in_rounds({**updates, **products}, rounds)
        for variant, error in failed.items():
            if isinstance(variant, Variant):
                cells.append(self._not_measured(variant, "bare", error))
                del loops[variant]
        return {variant: found[variant] for variant in loops}, Limit.of(found, failed, products)

    def _trained(self, variant: Variant) -> list[float]:
        """Seconds of the updates that count, through fairseq's trainer."""
        args = self.args
        words = fairseq_trainer.command(
            variant.model,
            self.size,
            self.n,
            variant.k,
            batch=self._batch,
            updates=WARM_UP + args.updates + 1,
            optimizer=args.optimizer,
            dtype=DTYPES[args.dtype],
            dropout=args.dropout,
            device=self.device,
        )
        return fairseq_trainer.seconds_of_updates(words)[WARM_UP:]

    def _not_measured(self, variant: Variant, path: str, error: Exception) -> Cell:
        status = memory.status_of(error)
        named = {"model": variant.model, "n": self.n, "k": variant.k, "path": path}
        return dict.fromkeys(KEYS) | named | {"status": status, "reason": first_line(error)}

    def _cell(self, variant: Variant, path: str, values: list[float], limit: float) -> Cell:
        first, median, third = quartiles(values)
        tokens = self._batch * self.n
        work = self._batch * operations.training(self.size, self.n, variant.k, bare.masked_positions(self.n))
        figures: dict[str, Any] = {
            "model": variant.model,
            "n": self.n,
            "k": variant.k,
            "path": path,
            "status": "ok",
            "batch": self._batch,
            "tokens": tokens,
            "dropout": self.args.dropout if MODELS[variant.model].needs == FAIRSEQ else 0.0,
            "seconds": median,
            "seconds_q1": first,
            "seconds_q3": third,
            "all_seconds": values,
            "tokens_per_second": tokens / median,
            "operations": work,
            "operations_per_second": work / median,
            "limit_operations_per_second": limit,
            "share_of_limit": work / median / limit,
        }
        return dict.fromkeys(KEYS) | figures
