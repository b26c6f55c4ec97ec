"""`linformer benchmark training`: speed of training with a plain loop and with fairseq's trainer."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch

from benchmarks.arguments import LEAST_ROUNDS, LEAST_UPDATES
from benchmarks.efficiency import bare, operations, presets, rate, sizes, stretch
from benchmarks.efficiency.checks import check_below_n, check_distinct, check_positions, say
from benchmarks.efficiency.machine import DTYPES, device_of, provenance, threads
from benchmarks.efficiency.models.registry import FAIRSEQ, MODELS, TRAINABLE, check_names
from benchmarks.efficiency.rate import Limit
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Cell, Store
from benchmarks.efficiency.timing import figures, in_rounds, outliers, times_faster
from benchmarks.measuring import RESULTS
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError

KEYS = (
    *("model", "n", "length", "padded", "k", "dropout", "path", "status", "reason"),
    *("batch", "tokens", "vocabulary", "parameters_dtype", "optimized_dtype"),
    *("seconds", "seconds_q1", "seconds_q3", "all_seconds", "update_seconds", "outliers", "tokens_per_second"),
    *("operations", "operations_per_second", "limit_operations_per_second", "share_of_limit"),
    *("times_bare", "peak_bytes"),
)
"""Keys of every cell; the value is None if it does not apply."""


def run(args: argparse.Namespace) -> int:
    """Measure what the options select; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    presets.fill_training(args)
    check_names(args.models)
    _check(args)
    device, size = device_of(args.device), sizes.sizes_of(args)
    torch_threads = threads(args.threads)
    kept = ("preset", "dtype", "lengths", "positions", "projected_dims", "padded", "models", "tokens", "optimizer")
    settings = {name: getattr(args, name) for name in (*kept, "dropouts", "paths", "rounds", "updates", "warm_up")}
    settings |= {"device": str(device), "threads": torch_threads, **asdict(size)}
    words = ["training", args.preset, device.type, args.dtype, args.optimizer]
    out = args.out or RESULTS / ("_".join(filter(None, words)) + ".json")
    store = Store(out, "training", settings, provenance(device, args.dtype), args.resume)
    for length in args.lengths:
        for dropout in args.dropouts:
            if any((cell["length"], cell["dropout"]) == (length, dropout) for cell in store.cells):
                say(f"T = {length}, dropout {dropout:g}: already measured")
            else:
                store.add(*Group(length, dropout, args, size, device, torch_threads).measure())
    say(f"written to {store.path}")
    return 0


def _check(args: argparse.Namespace) -> None:
    for name in args.models:
        if not MODELS[name].trains:
            raise UserError(f"model {name} is for inference only; training has {', '.join(TRAINABLE)}")
    check_distinct(args, "lengths", "models", "projected_dims", "dropouts", "paths")
    check_positions(args.positions, args.lengths)
    if any(MODELS[name].projects for name in args.models):
        check_below_n("--projected-dims", max(args.projected_dims), args.positions or min(args.lengths))
    if min(args.lengths) <= 2 * bare.FIRST_MASKED:
        raise UserError(f"--lengths has {min(args.lengths)}; expected {2 * bare.FIRST_MASKED + 1} or more")
    if args.rounds < LEAST_ROUNDS or args.rounds * args.updates < LEAST_UPDATES:
        raise UserError(
            f"--rounds {args.rounds} with --updates {args.updates} are too few; expected at least {LEAST_ROUNDS} "
            f"rounds and {LEAST_UPDATES} updates in all"
        )
    if not any(_has_loop(name, path) for name in args.models for path in args.paths):
        raise UserError(f"--paths trainer: fairseq's trainer trains none of {', '.join(args.models)}; add bare")
    if not all(0 <= dropout < 1 for dropout in args.dropouts):
        raise UserError(f"--dropouts {' '.join(map(str, args.dropouts))}: expected numbers from 0 to below 1")


def _has_loop(model: str, path: str) -> bool:
    """Whether a model can be trained in a loop."""
    return path == "bare" or MODELS[model].needs == FAIRSEQ


class Entry(NamedTuple):
    """A model and the loop that it is trained in."""

    model: str
    k: int | None
    path: str


@dataclass
class Group:
    """The cells of one length and one dropout."""

    length: int
    dropout: float
    args: argparse.Namespace
    size: Sizes
    device: torch.device
    threads: int
    done: dict[Entry, list[stretch.Done]] = field(default_factory=dict)
    """Results of the runs, one for each round."""

    def measure(self) -> list[Cell]:
        """Measure all models and loops in rounds."""
        products = rate.calls(self.size, DTYPES[self.args.dtype], self.device)
        turns = {entry: partial(self._turn, entry) for entry in self.entries()}
        taken, failed = in_rounds({**turns, **products}, self.args.rounds)
        limit = Limit.of(taken, failed, products)
        cells = [
            self._cell(entry, taken, limit) if entry in taken else self._not_measured(entry, failed[entry])
            for entry in turns
        ]
        for cell in cells:
            found = f"{cell['tokens_per_second']:,.0f} tokens/s" if cell["status"] == "ok" else cell["reason"]
            k = f" k={cell['k']}" if cell["k"] else ""
            say(f"T = {self.length}, dropout {self.dropout:g}, {cell['model']}{k}, {cell['path']}: {found}")
        return cells

    def entries(self) -> list[Entry]:
        """The models and loops to measure, in the order of the cells."""
        return [
            Entry(model, k, path)
            for model in self.args.models
            for k in (self.args.projected_dims if MODELS[model].projects else [None])
            for path in self.args.paths
            if _has_loop(model, path)
        ]

    def job(self, entry: Entry) -> stretch.Job:
        """The job that runs in each round."""
        args = self.args
        return stretch.Job(
            *entry,
            n=args.positions or self.length,
            length=self.length,
            sequences=max(1, args.tokens // self.length),
            padded=args.padded,
            dropout=self.dropout,
            sizes=self.size,
            optimizer=args.optimizer,
            dtype=args.dtype,
            device=str(self.device),
            threads=self.threads,
            warm_up=args.warm_up,
            updates=args.updates,
        )

    def _turn(self, entry: Entry) -> float:
        """Run a job; returns the mean seconds of an update."""
        done = stretch.alone(self.job(entry))
        self.done.setdefault(entry, []).append(done)
        return statistics.fmean(done.seconds)

    def _named(self, entry: Entry) -> Cell:
        job = self.job(entry)
        names = {name: getattr(job, name) for name in ("model", "n", "length", "padded", "k", "dropout", "path")}
        return dict.fromkeys(KEYS) | names

    def _not_measured(self, entry: Entry, error: Exception) -> Cell:
        status = error.status if isinstance(error, stretch.StretchError) else "failed"
        return self._named(entry) | {"status": status, "reason": str(error)}

    def _cell(self, entry: Entry, taken: dict[Any, list[float]], limit: Limit) -> Cell:
        values, done, job = taken[entry], self.done[entry], self.job(entry)
        found = figures(values)
        batch = job.batch
        masked = int(batch.masked.sum()) / job.sequences
        work = job.sequences * operations.training(
            self.size, self.length, entry.k, masked, MODELS[entry.model].projection
        )
        tokens = int(batch.tokens.ne(PAD).sum())
        peaks = [one.peak_bytes for one in done if one.peak_bytes is not None]
        bare_loop = taken.get(entry._replace(path="bare")) if entry.path == "trainer" else None
        return self._named(entry) | {
            "status": "ok",
            "batch": job.sequences,
            "tokens": tokens,
            **{name: getattr(done[0], name) for name in ("vocabulary", "parameters_dtype", "optimized_dtype")},
            **found,
            "update_seconds": [one.seconds for one in done],
            "outliers": outliers(values),
            "tokens_per_second": tokens / found["seconds"],
            "operations": work,
            "operations_per_second": work / found["seconds"],
            "limit_operations_per_second": limit.median,
            "share_of_limit": limit.share(work, values),
            "times_bare": times_faster(values, bare_loop)[1] if bare_loop else None,
            "peak_bytes": max(peaks, default=None),
        }
