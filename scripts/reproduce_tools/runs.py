"""Runs of `linformer` beside each other, each in a process forked from this one, which has imported what they need.

    printf '%s\n' "a_s1 pretrain experiment=small/linformer ..." | python -m scripts.reproduce_tools.runs --jobs 2

A line of the standard input is a name and the arguments of `linformer`, separated by blanks. What a run prints goes to
logs/NAME.log in the current folder. So torch and fairseq, which take many seconds, are loaded once, not for each run.
The exit status is 0 if all runs finished, 1 if one of them failed; the others are run all the same.

A signal that asks to stop is for the runs, too, and whoever sends it sends it to the process group: no other run is
started, and this program ends when they have. Under nohup, all of them ignore SIGHUP.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from linformer_fairseq import cli
from linformer_fairseq.files.option_types import count

# What every training imports; torch imports its compiler for any optimizer.
IMPORTED = ("linformer_fairseq.cli.training", "torch._dynamo")
ON_CPU = "run_config=cpu"
"""Other runs start Python anew: CUDA does not work in a fork of a process that has asked for the number of GPUs."""
LOGS = Path("logs")
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run(NamedTuple):
    """A run that has been started."""

    name: str
    started: float


def log_of(name: str) -> Path:
    """The file that has what a run printed."""
    return LOGS / f"{name}.log"


def start(words: Sequence[str], log: Path, handlers: Mapping[signal.Signals, Any]) -> int:
    """Fork a process that is ``linformer WORDS``, with these handlers; returns its number.

    Raises:
        OSError: its log cannot be written, or there are too many processes; it is not started then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("wb") as file:
        # A signal that comes before the handlers are those of a new process waits until they are.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            return os.fork() or _become(words, file.fileno(), handlers)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def _become(words: Sequence[str], output: int, handlers: Mapping[signal.Signals, Any]) -> NoReturn:
    status = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        if ON_CPU not in words:
            os.execv(sys.executable, [sys.executable, "-m", "linformer_fairseq.cli", *words])
        sys.argv = ["linformer", *words]
        status = cli.main(words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_all(lines: Sequence[str], jobs: int) -> bool:
    """Run all, some at a time; whether all of them finished."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    before = {number: signal.getsignal(number) for number in _STOPPING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, stop)
    waiting, running, finished = deque(lines), dict[int, Run](), 0
    while running or (waiting and not stopped):
        while waiting and len(running) < jobs and not stopped:
            name, *words = waiting.popleft().split()
            try:
                pid = start(words, log_of(name), before)
            except OSError as error:
                print(f"error: {name} failed: {error}", file=sys.stderr, flush=True)
                continue
            running[pid] = Run(name, time.monotonic())
            if stopped:  # perhaps before there was a process that it could reach
                os.kill(pid, stopped[0])
        if not running:
            break
        pid, status = os.wait()
        if pid not in running:
            continue
        run = running.pop(pid)
        if status == 0:
            finished += 1
            seconds = time.monotonic() - run.started
            print(f"==> {run.name}: finished after {seconds:.0f} s", file=sys.stderr, flush=True)
        elif not stopped:
            text = log_of(run.name).read_text(errors="replace").splitlines()[-3:]
            said = "\n".join([f"error: {run.name} failed; the end of {log_of(run.name)}:", *text])
            print(said, file=sys.stderr, flush=True)
    for number, handler in before.items():
        signal.signal(number, handler)
    return finished == len(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the standard input lists; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=count, default=1, help="number of runs at the same time (default: 1)")
    arguments = parser.parse_args(argv)
    lines = [line for line in sys.stdin.read().splitlines() if line.strip()]
    LOGS.mkdir(exist_ok=True)
    for module in IMPORTED:
        importlib.import_module(module)
    return 0 if run_all(lines, arguments.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
