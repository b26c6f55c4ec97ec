"""fairseq-train in processes that need not import everything anew: forked by a server that has imported it."""

import multiprocessing
import os
import sys
from collections.abc import Mapping
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
    import torch
    from fairseq_cli.train import cli_main

    if "OMP_NUM_THREADS" in environment:  # torch read it in the server, when that began
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))

    cli_main()


def start_warm(words: list[str], output: Path, **environment: str) -> BaseProcess:
    """Start ``fairseq-train WORDS`` in the environment of this process; what it prints is appended to ``output``.

    There is one server a process, which whoever was first has started, in the environment of that moment.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fairseq_cli.train"])
    process = context.Process(target=_train, args=(words, output, {**os.environ, **environment}))
    process.start()
    return process
