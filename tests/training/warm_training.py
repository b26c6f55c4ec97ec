"""fairseq-train in processes that need not import everything anew: forked by a server that has imported it."""

import functools
import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path


def _train(words: list[str], output: Path, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    with output.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # A child of such a server would start others by a server of its own, its data workers too.
    multiprocessing.set_start_method("fork", force=True)
    sys.argv = ["fairseq-train", *words]
    from fairseq_cli.train import cli_main

    cli_main()


@functools.cache
def _context() -> ForkServerContext:
    # Python has one server a process. That of the benchmarks, whose tests may have come first, has other threads and
    # logs otherwise.
    forkserver._forkserver._stop()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fairseq_cli.train"])
    return context


def start_warm(words: list[str], output: Path, **environment: str) -> BaseProcess:
    """Start ``fairseq-train WORDS``; what it prints is appended to ``output``.

    The server takes its environment from this process when the first one is started: set OMP_NUM_THREADS before.
    """
    process = _context().Process(target=_train, args=(words, output, environment))
    process.start()
    return process
