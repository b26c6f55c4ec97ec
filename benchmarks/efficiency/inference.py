"""`linformer benchmark inference`: time and memory of a forward pass. Its options are in `arguments`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.efficiency import presets, rate, sizes
from benchmarks.efficiency.checks import check_distinct, check_positions, say
from benchmarks.efficiency.group import Group, Input, Limits, Variant
from benchmarks.efficiency.machine import DTYPES, device_of, peak_limit, provenance, threads
from benchmarks.efficiency.models.registry import MODELS, check_names
from benchmarks.efficiency.store import Store
from benchmarks.measuring import RESULTS
from linformer_fairseq.files.errors import UserError

KEPT = (
    *("preset", "dtype", "lengths", "positions", "padded", "projected_dims", "models", "tokens", "batches"),
    *("rounds", "long_rounds", "max_seconds", "largest_batch", "memory_limit"),
)
"""Options that the cells depend on."""


def run(args: argparse.Namespace) -> int:
    """Measure what the options select; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    if args.models is not None:
        check_names(args.models)
    presets.fill_inference(args)
    _check_numbers(args)
    device, size = device_of(args.device), sizes.sizes_of(args)
    torch_threads = threads(args.threads)
    wanted = inputs(args)
    _check_dims(args.models, args.projected_dims, wanted[-1].n)
    groups = {given: variants(args.models, given.n, args.projected_dims, args.preset is not None) for given in wanted}
    peak = peak_limit(device, args.memory_limit)
    settings: dict[str, Any] = {name: getattr(args, name) for name in KEPT}
    settings |= {"device": str(device), "threads": torch_threads, **asdict(size)}
    store = Store(args.out or _default_out(args), "inference", settings, provenance(device, args.dtype), args.resume)
    dtype = DTYPES[args.dtype]
    products = rate.calls(size, dtype, device)
    limit = max(product() for product in products.values())
    say(f"matrix products: {limit:.3g} operations/s in {args.dtype} on {store.content['provenance']['hardware']}")
    limits = Limits(args.max_seconds, peak, limit)
    for given, chosen in groups.items():
        if not chosen:  # only Linformers, and no k is below n
            continue
        if {(cell["model"], cell["k"]) for cell in given.cells(store)} == {*chosen}:
            say(f"{given}: already measured")
            continue
        store.drop(**given.names())
        rounds = args.long_rounds if given.length > presets.LONG else args.rounds
        Group(given, chosen, size, dtype, device, limits, products, store, rounds, args.largest_batch).measure()
    say(f"written to {store.path}")
    return 0


def inputs(args: argparse.Namespace) -> list[Input]:
    """The inputs to measure, shortest first.

    Raises:
        UserError: an input is longer than the models' n.
    """
    check_positions(args.positions, args.lengths)
    found = []
    for length in sorted(args.lengths):
        batches: set[int | None] = {None} if args.largest_batch else {max(1, args.tokens // length), *args.batches}
        for batch in sorted(batches, key=lambda one: one or 0):
            for padded in {"no": [False], "yes": [True], "both": [False, True]}[args.padded]:
                found.append(Input(args.positions or length, length, batch, padded))
    return found


def variants(models: list[str], n: int, projected_dims: list[int], quiet: bool) -> list[Variant]:
    """The models for n positions; Linformers once for each k below n, which may be none."""
    below = [k for k in projected_dims if k < n]
    projects = any(MODELS[name].projects for name in models)
    if projects and len(below) < len(projected_dims) and not (below and quiet):
        say(f"n = {n}: skipping k = {', '.join(str(k) for k in projected_dims if k >= n)}, which is not below n")
    return [Variant(name, k) for name in models for k in (below if MODELS[name].projects else [None])]


def _check_dims(models: list[str], projected_dims: list[int], largest: int) -> None:
    if any(MODELS[name].projects for name in models) and min(projected_dims) >= largest:
        asked = ", ".join(map(str, projected_dims))
        raise UserError(f"k = {asked}: none is below n = {largest}, the largest n of the models; see --projected-dims")


def _check_numbers(args: argparse.Namespace) -> None:
    check_distinct(args, "lengths", "projected_dims", "models", "batches")
    if args.largest_batch and args.batches:
        raise UserError("--largest-batch looks for the batch itself; leave --batches out")
    if not args.max_seconds > 0:
        raise UserError(f"--max-seconds is {args.max_seconds}; expected more than 0")


def _default_out(args: argparse.Namespace) -> Path:
    words = ["inference", args.preset, args.device, args.dtype]
    words += ["largest_batch"] if args.largest_batch else []
    return RESULTS / ("_".join(word for word in words if word) + ".json")
