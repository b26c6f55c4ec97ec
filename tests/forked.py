"""Console commands in processes that need not import everything anew: forked by a server that has imported it.

Only what others wrote is imported before; of the project each process imports itself what it uses. One test of both of
fairseq's entry points (tests/integration/test_entry_points.py), SLURM's and those of the scripts start Python anew.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest import mock

# One thread and no GPU, so that results are the same bit for bit.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HYDRA_FULL_ERROR": "1"}
_IMPORTED = ["fairseq_cli.train", "fairseq_cli.hydra_train", "torch._dynamo", "torch.utils.tensorboard"]


def _become(program: Path, words: Sequence[str], cwd: Path, environment: Mapping[str, str], output: Path) -> None:
    """What the new process runs: the program's script, as a shell would start it."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    with output.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # A child of such a server would start others by a server of its own, its data workers too.
    multiprocessing.set_start_method("fork", force=True)
    sys.argv = [str(program), *words]
    runpy.run_path(str(program), run_name="__main__")


@functools.cache
def _context() -> ForkServerContext:
    # Python has one server a process. That of the benchmarks, whose tests may have come first, has other threads and
    # logs otherwise.
    forkserver._forkserver._stop()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    with mock.patch.dict(os.environ, ENVIRONMENT):
        forkserver.ensure_running()
    return context


class Forked:
    """A started program, with what tests use of ``subprocess.Popen``; it leads a process group of its own.

    Args:
        program: the script of a console command.
        words: its arguments.
        cwd: the folder where it runs.
        environment: variables beside those of this process and `ENVIRONMENT`.
        output: the file that takes what it prints, to both streams.
    """

    def __init__(
        self, program: Path, words: Sequence[str], cwd: Path, environment: Mapping[str, str], output: Path
    ) -> None:
        self._output = output
        output.touch()
        self._process = _context().Process(
            target=_become, args=(program, words, cwd, {**os.environ, **ENVIRONMENT, **environment}, output)
        )
        self._process.start()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.wait()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    @property
    def returncode(self) -> int | None:
        """As Popen's: a negative signal number for a process that a signal ended, None while it runs."""
        return self._process.exitcode

    @property
    def printed(self) -> str:
        """What it has printed until now."""
        return self._output.read_text()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        if self.returncode == -signal.SIGKILL:  # torch's data workers outlive it if their pipe is full
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for its end; returns what it printed."""
        self.wait(timeout)
        return self.printed, None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
