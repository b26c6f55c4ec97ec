"""`linformer benchmark selfcheck`: whether the benchmarks set up each model as its own users do."""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.efficiency import sizes
from benchmarks.efficiency.cells import Result, label, number
from benchmarks.efficiency.checks import check_below_n, check_distinct, say
from benchmarks.efficiency.documented import RIVALS
from benchmarks.efficiency.group import Input
from benchmarks.efficiency.machine import device_of, provenance, threads
from benchmarks.efficiency.models.registry import MODELS, check_names, missing
from benchmarks.efficiency.store import Cell, Store
from benchmarks.efficiency.tables import size_of
from benchmarks.efficiency.timing import outliers
from benchmarks.measuring import RESULTS, ROOT, said
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table

KEPT = ("dtype", "lengths", "projected_dim", "models", "tokens", "rounds")
"""Options that the cells depend on."""
TOLERANCES = {"time_ratio": 0.05, "operations_ratio": 0.10, "peak_ratio": 0.10}
"""Largest allowed difference from 1 of a ratio between the benchmarks' measurement and the plain program's."""
PASSES = 3
"""Timed passes of each process in a round."""
FREED_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
"""Environment of the processes whose memory is measured: glibc returns freed memory immediately."""
PAGE = mmap.PAGESIZE
"""The unit of resident memory, and the smallest peak that is compared: a pass of a tiny model may add no page."""
MASKED = ("linformer", "roberta_sdpa_core", "roberta_hf", "roberta_fairseq")
"""Models that use a padding mask, and are also checked with padding."""
SIDES = {
    "harness": [sys.executable, "-m", "benchmarks.efficiency.harnessed"],
    "plain": [sys.executable, "-P", str(Path(__file__).with_name("documented.py"))],
}
"""The two programs; with -P the second one cannot import modules from its folder, which is the benchmarks'."""


def run(args: argparse.Namespace) -> int:
    """Check what the options select and print a table; the exit status is 1 if a check fails.

    Raises:
        UserError: something that the user can fix.
    """
    args.models = args.models or [name for name in RIVALS if not missing(name)]
    _check(args)
    device, size = device_of(args.device), sizes.sizes_of(args)
    settings = {name: getattr(args, name) for name in KEPT}
    settings |= {"device": str(device), "threads": threads(args.threads), **asdict(size)}
    out = args.out or RESULTS / f"selfcheck_{device.type}_{args.dtype}.json"
    store = Store(out, "selfcheck", settings, provenance(device, args.dtype), args.resume)
    shapes = [(length, False) for length in sorted(args.lengths)] + [(min(args.lengths), True)]
    for name in args.models:
        for length, padded in shapes:
            if padded and name not in MASKED:
                continue
            if any((cell["model"], cell["n"], cell["padded"]) == (name, length, padded) for cell in store.cells):
                say(f"{name}, n = {length}: already checked")
                continue
            store.add(_compared(name, Input(length, length, max(1, args.tokens // length), padded), settings))
    print("\n".join(table(store.content)))
    say(f"written to {store.path}")
    return 0 if all(cell["passed"] for cell in store.cells) else 1


def _check(args: argparse.Namespace) -> None:
    check_names(args.models)
    for name in args.models:
        if name not in RIVALS:
            raise UserError(f"model {name} is not checked; expected some of {', '.join(RIVALS)}")
    check_distinct(args, "lengths", "models")
    check_below_n("--projected-dim", args.projected_dim, min(args.lengths))


class Side:
    """A process of one of the two programs, with its model.

    Args:
        name: a key of SIDES.
        case: the program's argument: the model, its sizes and its input.
        environment: variables in addition to those of this process.
    """

    def __init__(self, name: str, case: dict[str, Any], environment: Mapping[str, str]) -> None:
        self._name = f"{case['model']}, {name}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by __exit__
        self._process = subprocess.Popen(
            [*SIDES[name], json.dumps(case)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def line(self) -> str:
        """The next line that the program prints.

        Raises:
            UserError: the process ended; the message has the last line of its log.
        """
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            self._log.seek(0)
            last = (self._log.read().strip() or f"status {self._process.wait()}").splitlines()[-1]
            raise UserError(f"{self._name}: its process ended: {last}")
        return found.strip()

    def ask(self, what: str) -> float:
        """The answer to "pass", "operations" or "peak".

        Raises:
            UserError: as `line`.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # if the process has ended, `line` raises
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
        return float(self.line())

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def _compared(name: str, given: Input, settings: dict[str, Any]) -> Cell:
    """Measures a model with an input in both programs; returns the cell."""
    assert given.sequences is not None
    tokens = given.tokens(given.sequences, settings["vocabulary"])
    case = {key: settings[key] for key in ("device", "dtype", "threads", *asdict(sizes.Sizes()))}
    case |= {"model": name, "n": given.n, "k": settings["projected_dim"] if MODELS[name].projects else None}
    case |= {"length": given.length, "padded": given.padded, "lengths": tokens.ne(PAD).sum(dim=1).tolist()}
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for turn in range(settings["rounds"]):
        with _both(case, {}) as sides:
            passes = [
                {side: sides[side].ask("pass") for side in sorted(sides, reverse=bool((turn + repeat) % 2))}
                for repeat in range(PASSES)
            ]
        for side, values in seconds.items():
            values.append(statistics.median(times[side] for times in passes))
    with _both(case, FREED_AT_ONCE) as sides:
        operations = {side: process.ask("operations") for side, process in sides.items()}
        peak = {side: process.ask("peak") for side, process in sides.items()}
    ratios = [ours / plain for ours, plain in zip(seconds["harness"], seconds["plain"], strict=True)]
    cell: Cell = {
        **{key: case[key] for key in ("model", "n", "k", "padded")},
        "batch": given.sequences,
        "seconds": seconds,
        "outliers": {side: outliers(values) for side, values in seconds.items()},
        "operations": operations,
        "peak_bytes": peak,
        "time_ratio": statistics.median(ratios),
        "operations_ratio": operations["harness"] / operations["plain"],
        "peak_ratio": max(peak["harness"], PAGE) / max(peak["plain"], PAGE),
    }
    cell["passed"] = all(abs(cell[key] - 1) <= tolerance for key, tolerance in TOLERANCES.items())
    say(f"{name}, {given}: time {cell['time_ratio']:.3f}, passed: {cell['passed']}")
    return cell


@contextlib.contextmanager
def _both(case: dict[str, Any], environment: Mapping[str, str]) -> Iterator[dict[str, Side]]:
    """Start both programs and wait until they are ready."""
    with contextlib.ExitStack() as stack:
        sides = {side: stack.enter_context(Side(side, case, environment)) for side in SIDES}
        for process in sides.values():
            process.line()
        yield sides


def table(result: Result) -> list[str]:
    """The ratios as a Markdown table."""
    rows = []
    for cell in result["cells"]:
        input_ = f"{cell['batch']:,} x {cell['n']:,}{', padded' if cell['padded'] else ''}"
        milliseconds = [1e3 * statistics.median(cell["seconds"][side]) for side in SIDES]
        ratios = [f"{cell[key]:.3f}" for key in TOLERANCES]
        several = sum(cell["outliers"].values())
        passed = ("yes" if cell["passed"] else "**no**") + (f" ({several} outliers)" if several else "")
        rows.append([label(cell["model"]), input_, *map(number, milliseconds), *ratios, passed])
    settings = result["settings"]
    head = ["model", "input", "ms, benchmarks", "ms, plain", "time", "operations", "peak memory", "within bounds"]
    bounds = ", ".join(f"{name.split('_')[0]} {100 * most:g} %" for name, most in TOLERANCES.items())
    return [
        f"The models as the benchmarks build and measure them, compared with a few plain lines of each library's "
        f"documented use (`benchmarks/efficiency/documented.py`), in {settings['dtype']}, {size_of(result)}, in "
        f"alternating processes, {settings['rounds']} rounds of new processes. The ratio of times is the median over "
        f"the rounds. Largest allowed differences from 1: {bounds}.",
        "",
        *markdown_table([head, *rows], left=range(2)),
        "",
        *(f"({said(made)})" for made in [result["provenance"], *result.get("resumed", [])]),
    ]
