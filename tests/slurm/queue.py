"""What tests do with a SLURM: submit, look, wait, interrupt."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.slurm.cluster import clean_environment

SCRIPTS = REPOSITORY / "scripts" / "slurm"
PACE = Path(__file__).with_name("pace")
# Two nodes with a process each, no GPUs: what a user of a CPU cluster says.
TWO_NODES = ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=0", "--cpus-per-task=1")
_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE")
_WAIT_SECONDS = 600


@dataclass(frozen=True)
class Queue:
    """A SLURM, as the user of one folder sees it.

    Attributes:
        conf: its slurm.conf.
        folder: where the user stands; ``pace`` in it slows training down while it is there.
    """

    conf: Path
    folder: Path
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def pace(self) -> Path:
        """The file that slows training down."""
        return self.folder / "pace"

    def environment(self) -> dict[str, str]:
        """One thread and no GPU, so that results are the same bit for bit."""
        numeric = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        ours = {"PYTHONPATH": f"{PACE}:{REPOSITORY}", "PACE_FILE": str(self.pace)}
        return {**clean_environment(self.conf), **numeric, **ours}

    def run(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        """A command to its end; ``more`` are environment variables."""
        return subprocess.run(
            [*map(str, words)],
            cwd=self.folder,
            env={**self.environment(), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WAIT_SECONDS,
        )

    def start(self, *words: object) -> subprocess.Popen[str]:
        """A command that goes on while the test does something else; it does not outlive the tests of the module."""
        process = subprocess.Popen(
            [*map(str, words)],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def end_of(self, process: subprocess.Popen[str]) -> str:
        """Wait for a started command; returns what it printed."""
        return process.communicate(timeout=_WAIT_SECONDS)[0]

    def close(self) -> None:
        """End what was started, and all jobs."""
        for process in self._started:
            process.kill()
            process.communicate()
        for state in ("PENDING", "RUNNING"):
            self.run("scancel", f"--state={state}")

    def submit(self, *words: object, **more: str) -> str:
        """``sbatch WORDS``; returns the job's number."""
        done = self.run("sbatch", "--parsable", *words, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def pretrain(self, options: Sequence[str], keys: Sequence[str]) -> str:
        """Submit pretrain.sbatch on two nodes; returns the job's number."""
        return self.submit(*TWO_NODES, *options, SCRIPTS / "pretrain.sbatch", *keys)

    def take(self, nodes: str) -> None:
        """Let an urgent job have these nodes for a moment."""
        self.submit("--partition=urgent", f"--nodelist={nodes}", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")

    def show(self, job: str) -> dict[str, str]:
        """What ``scontrol show job`` says of one job."""
        done = self.run("scontrol", "show", "job", "--oneliner", job)
        assert done.returncode == 0, done.stderr
        return dict(re.findall(r"(\w+)=(\S*)", done.stdout.splitlines()[0]))

    def restarts(self, job: str) -> int:
        """How often it was requeued."""
        return int(self.show(job)["Restarts"])

    def seconds(self, job: str) -> int:
        """For how long it has been running since its last start."""
        days, _, clock = self.show(job)["RunTime"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

    def over(self, job: str) -> bool:
        """Whether it has ended and is not queued again."""
        return self.show(job)["JobState"] in _OVER

    def wait(self, job: str) -> Mapping[str, str]:
        """Until the job is over; returns what `show` does."""
        self.until(lambda: self.over(job), f"job {job} did not end")
        return self.show(job)

    def until(self, condition: Callable[[], object], otherwise: str) -> None:
        """Until something holds; fails after ten minutes with what the jobs have printed."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{otherwise}:\n{self.output()}"
            time.sleep(0.5)  # a condition is mostly a program of SLURM, which takes its time, too

    def output(self, job: str = "") -> str:
        """What the jobs of this folder have printed, or one of them and its tasks; the last of it."""
        files = [file for file in sorted(self.folder.glob("logs/**/*.out")) if f"-{job}" in str(file)]
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def log(self, job: str) -> str:
        """What the job itself printed, without its tasks."""
        (file,) = self.folder.glob(f"logs/*-{job}.out")
        return file.read_text()
