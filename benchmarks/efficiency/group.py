"""All models with one input: building, warming up, measuring in rounds, recording."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.efficiency import memory, operations
from benchmarks.efficiency.checks import say
from benchmarks.efficiency.memory import largest
from benchmarks.efficiency.models.build import build
from benchmarks.efficiency.models.registry import MODELS, missing
from benchmarks.efficiency.rate import Limit
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Cell, Store
from benchmarks.efficiency.timing import FEW, in_rounds, outliers, quartiles, seconds_of
from benchmarks.efficiency.tokens import random_tokens
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.memory import is_out_of_memory

LARGEST_BATCH = 2**16
"""The largest batch that --largest-batch tries."""


class Variant(NamedTuple):
    """A model and its k."""

    model: str
    k: int | None

    def __str__(self) -> str:
        return self.model if self.k is None else f"{self.model} k={self.k}"


class Input(NamedTuple):
    """The input of the models of a group."""

    n: int
    """Positions that the models are built for."""
    length: int
    """Positions of a sequence, T, with padding."""
    sequences: int | None
    """Sequences of a batch; None for the largest batch that fits."""
    padded: bool
    """Whether sequences are shorter and padded to T."""

    def __str__(self) -> str:
        model = "" if self.n == self.length else f", n = {self.n} in the model"
        batch = f", {self.sequences} sequences" if self.sequences else ""
        return f"T = {self.length}{model}{batch}{', padded' if self.padded else ''}"

    def cells(self, store: Store) -> list[Cell]:
        """The cells of this input in the file."""
        return [cell for cell in store.cells if self.names().items() <= cell.items()]

    def names(self) -> dict[str, Any]:
        """Keys and values that identify this input in a cell."""
        return {"n": self.n, "length": self.length, "wanted_batch": self.sequences, "padded": self.padded}

    def tokens(self, batch: int, vocabulary: int) -> Tensor:
        """Ids (B, T); see `random_tokens`."""
        return random_tokens(batch, self.length, vocabulary, self.padded)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, shortened."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


class Limits(NamedTuple):
    """Limits of time and memory of a pass, and the rate of matrix products, which predicts its time."""

    seconds: float
    peak_bytes: float | None
    operations_per_second: float


class NotMeasured(Exception):
    """A cell without a time: its status and the reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class Ready:
    """A variant that is built and warmed up."""

    model: nn.Module
    tokens: Tensor
    peak_bytes: int | None
    weights: int
    batch_limited_by: str
    seconds: float
    """Seconds of a pass in the warm-up."""

    @property
    def read(self) -> int:
        """Number of tokens of a pass, without padding."""
        return int(self.tokens.ne(PAD).sum())


@dataclass
class Group:
    """The cells of one input."""

    given: Input
    variants: list[Variant]
    """Models to measure."""
    size: Sizes
    dtype: torch.dtype
    device: torch.device
    limits: Limits
    products: Mapping[str, Callable[[], float]]
    """Those of `rate.calls`, timed in the same rounds as the models."""
    store: Store
    """The file for the cells, which has those of shorter inputs."""
    rounds: int
    """Timed passes of each variant."""
    largest_batch: bool
    """Find the largest batch that fits."""

    @property
    def alone(self) -> bool:
        """Whether only one model is on the device at a time, as in the paper: the others take no memory then."""
        return self.largest_batch and self.device.type == "cuda"

    def measure(self) -> None:
        """Measure all variants and add their cells."""
        ready: dict[Variant, Ready] = {}
        with memory.no_more_than_there_is(self.device):
            for variant in self.variants:
                try:
                    ready[variant] = self._prepare(variant)
                except NotMeasured as error:
                    self._add(variant, status=error.status, reason=error.reason)
                    self._say(variant, f"{error.status.replace('_', ' ')}: {error.reason}")
                self._release()
            if ready:
                self._time(ready)
        ready.clear()
        self._release()
        if any(MODELS[variant.model].compiled for variant in self.variants):
            torch._dynamo.reset()  # the models of the next input are new ones

    def _time(self, ready: dict[Variant, Ready]) -> None:
        """Measure in rounds and add the cells."""
        seconds, limit = self._rounds(ready)
        for variant, values in seconds.items():
            self._add(variant, **self._figures(ready[variant], values, variant, limit))
            per_token = statistics.median(values) / ready[variant].read
            self._say(variant, f"{1 / per_token:,.0f} tokens/s in batches of {ready[variant].tokens.size(0)}")

    def _prepare(self, variant: Variant) -> Ready:
        """Build and warm up.

        Raises:
            NotMeasured: that failed, or would take too much time or memory.
        """
        if reason := missing(variant.model):
            raise NotMeasured("not_installed", reason)
        batch = self.given.sequences or 1
        self._check_predicted(variant, batch)
        try:
            model = build(variant.model, self.size, self.given.n, variant.k, self.dtype, self.device)
            return self._warmed_up(variant, model, batch)
        except NotMeasured:
            raise
        except UserError as error:
            raise NotMeasured("failed", str(error)) from error
        except (RuntimeError, MemoryError, ImportError, ValueError, IndexError, AttributeError, TypeError) as error:
            # Models of other libraries may fail in any way; the remaining models are still measured.
            name = "" if is_out_of_memory(error) else f"{type(error).__name__}: "
            raise NotMeasured(memory.status_of(error), f"{name}{first_line(error)}") from None

    def _check_predicted(self, variant: Variant, batch: int) -> None:
        seconds, source = self._predicted_seconds(variant, batch)
        if seconds > self.limits.seconds:
            raise NotMeasured("too_slow", f"{seconds:.3g} s a pass by {source}; allowed {self.limits.seconds:g} s")
        least = self._least_bytes(variant, batch)
        if self.limits.peak_bytes is not None and least > self.limits.peak_bytes:
            allowed = self.limits.peak_bytes / 2**30
            raise NotMeasured("out_of_memory", f"needs {least / 2**30:.3g} GiB by formula; allowed {allowed:.3g} GiB")

    def _predicted_seconds(self, variant: Variant, batch: int) -> tuple[float, str]:
        """Seconds of a pass, by the longest of the shorter inputs or the rate of matrix products, and which of them."""
        work = batch * self._operations(variant)
        smaller = [
            cell
            for cell in self.store.cells
            if (cell["model"], cell["k"]) == variant and cell["status"] == "ok" and cell["length"] < self.given.length
        ]
        if smaller:
            last = max(smaller, key=lambda cell: int(cell["length"]))
            return last["seconds"] * work / last["operations"], f"what T = {last['length']} took"
        return work / self.limits.operations_per_second, "the rate of matrix products"

    def _operations(self, variant: Variant) -> float:
        return operations.forward(self.size, self.given.length, variant.k, MODELS[variant.model].projection)

    def _least_bytes(self, variant: Variant, batch: int) -> float:
        stores, element = MODELS[variant.model].stores, torch.empty(0, dtype=self.dtype).element_size()
        return operations.least_bytes(self.size, self.given.length, variant.k, stores, batch, element)

    def _warmed_up(self, variant: Variant, model: nn.Module, batch: int) -> Ready:
        weights = sum(value.numel() * value.element_size() for value in model.parameters())
        ready = Ready(model, self._tokens(batch), None, weights, "", 0.0)
        with torch.no_grad():
            if MODELS[variant.model].compiled:
                self._pass(ready)  # compiles, which may take longer than a pass
            ready.seconds = seconds_of(partial(self._pass, ready), self.device)
            if ready.seconds > self.limits.seconds:
                reason = f"the first pass took {ready.seconds:.3g} s; allowed {self.limits.seconds:g} s"
                raise NotMeasured("too_slow", reason)
            if self.largest_batch:
                self._find_largest(variant, ready)
            ready.peak_bytes = self._peak(ready)
        if self.alone:
            model.to("cpu")
            ready.tokens = ready.tokens.to("cpu")
        return ready

    def _find_largest(self, variant: Variant, ready: Ready) -> None:
        """Set the largest batch that fits."""
        limited: dict[int, str] = {}

        def fits(batch: int) -> bool:
            if reason := self._too_much(variant, ready, batch):
                limited[batch] = reason
            return not reason

        batch = largest(fits, LARGEST_BATCH)
        if batch == 0:
            raise NotMeasured("out_of_memory", limited[1])
        ready.batch_limited_by = limited.get(batch + 1, "the search's end")
        ready.tokens = self._tokens(batch)
        self._release()

    def _too_much(self, variant: Variant, ready: Ready, batch: int) -> str:
        """Why a batch does not fit; empty if it does."""
        limit = self.limits.peak_bytes
        seconds = ready.seconds * batch / ready.tokens.size(0)
        if batch > 1 and seconds > self.limits.seconds:
            return f"time: {seconds:.3g} s predicted"
        if limit is not None and ready.weights + self._least_bytes(variant, batch) > limit:
            return f"memory: more than {limit / 2**30:.3g} GiB by formula"
        trial = Ready(ready.model, self._tokens(batch), None, ready.weights, "", 0.0)
        try:
            started = time.perf_counter()
            peak = self._peak(trial)
            ready.seconds, ready.tokens = time.perf_counter() - started, trial.tokens
        except (RuntimeError, MemoryError) as error:
            return f"{'memory' if is_out_of_memory(error) else 'failed'}: {first_line(error)}"
        finally:
            del trial
            self._release()
        if limit is not None and peak is not None and ready.weights + peak > limit:
            return f"memory: {(ready.weights + peak) / 2**30:.3g} GiB of weights and pass"
        return ""

    def _peak(self, ready: Ready) -> int | None:
        return memory.peak_of(partial(self._pass, ready), self.device)

    def _pass(self, ready: Ready) -> Tensor:
        features: Tensor = ready.model(ready.tokens)
        return features

    def _tokens(self, batch: int) -> Tensor:
        return self.given.tokens(batch, self.size.vocabulary).to(self.device)

    def _rounds(self, ready: dict[Variant, Ready]) -> tuple[dict[Variant, list[float]], Limit]:
        """Seconds of each variant by round, and the limit in these rounds; adds the cells of variants that fail.

        Raises:
            UserError: the limit cannot be measured.
        """
        calls = {variant: partial(self._fetched if self.alone else self._timed, one) for variant, one in ready.items()}
        with torch.no_grad():
            taken, failed = in_rounds({**calls, **self.products}, self.rounds)
        limit = Limit.of(taken, failed, self.products)
        for variant, error in failed.items():
            if isinstance(variant, Variant):
                status = memory.status_of(error)
                self._add(variant, status=status, reason=f"in a round: {first_line(error)}")
        return {variant: taken[variant] for variant in calls if variant in taken}, limit

    def _timed(self, one: Ready) -> float:
        """Seconds of a pass after an untimed one, which takes over memory and caches from the previous model."""
        self._pass(one)
        return seconds_of(partial(self._pass, one), self.device)

    def _fetched(self, one: Ready) -> float:
        """The same for a model that is moved to the device only for this."""
        one.model.to(self.device)
        one.tokens = one.tokens.to(self.device)
        try:
            return self._timed(one)
        finally:
            one.model.to("cpu")
            one.tokens = one.tokens.to("cpu")
            self._release()

    def _figures(self, one: Ready, taken: list[float], variant: Variant, limit: Limit) -> Cell:
        """The values of a measured cell, except those that identify it."""
        tokens = one.read
        first, median, third = quartiles(taken)
        work = one.tokens.size(0) * self._operations(variant)
        several = len(taken) >= FEW
        return {
            "status": "ok",
            "batch": one.tokens.size(0),
            "batch_limited_by": one.batch_limited_by,
            "tokens": tokens,
            "seconds": median,
            "seconds_q1": first if several else None,
            "seconds_q3": third if several else None,
            "all_seconds": taken,
            "outliers": outliers(taken),
            "tokens_per_second": tokens / median,
            "operations": work,
            "operations_per_second": work / median,
            "limit_operations_per_second": limit.median,
            "limit_by_round": list(limit.by_round),
            "limit_outliers": limit.outliers,
            "share_of_limit": limit.share(work, taken),
            "weight_bytes": one.weights,
            "peak_bytes": one.peak_bytes,
            "peak_bytes_per_token": None if one.peak_bytes is None else one.peak_bytes / tokens,
        }

    def _add(self, variant: Variant, **figures: Any) -> None:
        """Add a cell; every cell has every key."""
        empty = dict.fromkeys(KEYS)
        self.store.add({**empty, "model": variant.model, "k": variant.k, **self.given.names(), **figures})

    def _say(self, variant: Variant, text: str) -> None:
        say(f"{self.given}; {variant}: {text}")

    def _release(self) -> None:
        memory.release(self.device)


KEYS = (
    *("model", "n", "length", "padded", "k", "status", "reason", "wanted_batch", "batch", "batch_limited_by", "tokens"),
    *("seconds", "seconds_q1", "seconds_q3", "all_seconds", "outliers", "tokens_per_second"),
    *("operations", "operations_per_second", "share_of_limit"),
    *("limit_operations_per_second", "limit_by_round", "limit_outliers"),
    *("weight_bytes", "peak_bytes", "peak_bytes_per_token"),
)
"""Keys of every cell; the value is None if it does not apply."""
