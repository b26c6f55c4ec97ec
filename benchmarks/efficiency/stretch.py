"""A "stretch": a short training run with warm-up updates, timed updates and peak memory.

No other model is in memory at the same time, so a model can use all memory of the machine, and stretches of several
models and loops can alternate. On a CPU each has a process of its own, forked from a server that has imported the
modules but run nothing. On a GPU the plain loop runs in this process, where torch counts the memory, so that no stretch
waits for imports; fairseq's trainer, which is made for one training a process, runs in a new one. That imports the
modules itself, because imports initialize CUDA, which then fails in forked processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.efficiency import bare, fairseq_trainer, memory
from benchmarks.efficiency.group import first_line
from benchmarks.efficiency.machine import DTYPES
from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.models.trainable import build_trainable, vocabulary_of
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.timing import synchronise
from linformer_fairseq.files.errors import UserError

IMPORTED = ("torch", "torch._dynamo", "linformer_fairseq", "fairseq_cli.train", "linformer_fairseq.models")
"""Modules that the fork server imports; those that are not installed are skipped."""

_PR_SET_PDEATHSIG = 1
_SECONDS_TO_END = 10
"""Time that a process has to end after it has sent its result."""


@dataclass(frozen=True)
class Job:
    """The options of a stretch."""

    model: str
    k: int | None
    path: str
    """``bare`` or ``trainer``."""
    n: int
    """Positions of the model."""
    length: int
    """Positions T of the batch."""
    sequences: int
    padded: bool
    dropout: float
    sizes: Sizes
    optimizer: str
    dtype: str
    device: str
    threads: int
    warm_up: int
    """Untimed updates."""
    updates: int
    """Timed updates."""

    @property
    def batch(self) -> bare.Batch:
        """The batch of every update, the same in both loops."""
        return bare.batch_of(self.sequences, self.length, self.sizes.vocabulary, self.padded)


@dataclass(frozen=True)
class Done:
    """The result of a stretch; data types and sizes are those of the actual tensors."""

    seconds: list[float]
    """Seconds of each timed update."""
    peak_bytes: int | None
    """Memory of model, gradients, optimizer and activations during the timed updates."""
    vocabulary: int
    """Rows of the token embeddings."""
    parameters_dtype: str
    optimized_dtype: str
    """Data type of the parameters that the optimizer updates."""


class StretchError(RuntimeError):
    """A stretch that failed: the status of its cell, and the reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def alone(job: Job) -> Done:
    """Run a job while no other model is in memory.

    Raises:
        StretchError: the job failed, or its process ended early.
    """
    if torch.device(job.device).type == "cuda" and job.path == "bare":
        try:
            return _ran(job)
        finally:
            if MODELS[job.model].compiled:
                torch._dynamo.reset()  # the next model is a new one
            memory.release(torch.device(job.device))
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(job, theirs))  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    try:
        status, found = ours.recv()
        process.join(_SECONDS_TO_END)
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        raise StretchError("failed", f"the process {how}") from None
    finally:
        process.terminate()
        process.join()
        ours.close()
    if status != "ok":
        raise StretchError(status, found)
    done: Done = found
    return done


@lru_cache(maxsize=1)
def _context() -> multiprocessing.context.BaseContext:
    if torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _answer(job: Job, pipe: Connection) -> None:
    """Run a job in the new process and send its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent terminates this process
    with contextlib.suppress(OSError, AttributeError):  # Linux: end when the parent process ends
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    multiprocessing.set_start_method("fork", force=True)  # for data workers, as in a user's run
    logging.disable(logging.WARNING)
    torch.set_num_threads(job.threads)
    try:
        pipe.send(("ok", _ran(job)))
    except StretchError as error:
        pipe.send((error.status, str(error)))


def _ran(job: Job) -> Done:
    """Run a job in this process.

    Raises:
        StretchError: the job failed.
    """
    device = torch.device(job.device)
    with memory.no_more_than_there_is(device), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _LOOPS[job.path](job, device)
        except (RuntimeError, MemoryError, ValueError, UserError) as error:
            failed = StretchError(memory.status_of(error), first_line(error))
    raise failed  # here, because an error that is raised while another is handled keeps that one, and so its tensors


def _bare(job: Job, device: torch.device) -> Done:
    watch = memory.Watch(device)
    model = build_trainable(job.model, job.sizes, job.n, job.k, job.dropout, device)
    loop = bare.BareLoop(model, job.batch, job.optimizer, DTYPES[job.dtype], device)
    for _ in range(job.warm_up):
        loop.update()
    watch.restart()
    moments = []
    for number in range(job.updates + 1):
        synchronise(device)
        moments.append(time.perf_counter())
        if number < job.updates:
            loop.update()
    return _done(moments, watch, vocabulary_of(model), loop.parameters[0], loop.optimized[0])


def _trainer(job: Job, device: torch.device) -> Done:
    watch = memory.Watch(device)
    moments: list[float] = []

    def before_update(number: int) -> bool:
        """Record the time; returns True after the last timed update."""
        if number == job.warm_up:
            watch.restart()
        if number >= job.warm_up:
            synchronise(device)
            moments.append(time.perf_counter())
        return number == job.warm_up + job.updates

    words = fairseq_trainer.command(job, device)
    trainer = fairseq_trainer.train(words, job.batch, job.sizes.vocabulary, before_update)
    optimized = trainer.optimizer.param_groups[0]["params"][0]
    embeddings = trainer.model.encoder.sentence_encoder.embed_tokens.weight
    return _done(moments, watch, embeddings.size(0), embeddings, optimized)


def _done(moments: list[float], watch: memory.Watch, vocabulary: int, parameter: Any, optimized: Any) -> Done:
    seconds = [later - earlier for earlier, later in itertools.pairwise(moments)]
    types = (str(tensor.dtype).removeprefix("torch.") for tensor in (parameter, optimized))
    return Done(seconds, watch.peak(), vocabulary, *types)


_LOOPS: dict[str, Callable[[Job, torch.device], Done]] = {"bare": _bare, "trainer": _trainer}
