"""The processes of a run: the rank of this one, from the environment of torchrun or SLURM, and the command for several.

The number of processes that were started must be that of the config; otherwise, nothing would be trained, or several
copies of the run in one folder.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.distributed import run as torch_run

from linformer_fairseq.files.errors import UserError

# torchrun kills its workers this many seconds after it forwards a signal: time to finish the update and save.
_SHUTDOWN_SECONDS = 600

INSTALLED_MODULES_ONLY = {"PYTHONSAFEPATH": "1"}
"""Environment of processes started with ``python -m``: else modules in the current folder would hide installed ones."""


@dataclass(frozen=True)
class RankInfo:
    """The rank of a process in its run."""

    rank: int
    world_size: int
    local_rank: int
    init_method: str | None
    """As in torch.distributed; None for a single process."""
    started_by: str


SRUN = "srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS)"
"""`RankInfo.started_by` in a step of a SLURM job."""
_INTERACTIVE_STEP = "4294967290"
"""SLURM_STEP_ID in the shell of `salloc` (SLURM_INTERACTIVE_STEP in slurm.h), which is one process of any job."""
ALONE = RankInfo(0, 1, 0, None, "this command")
_FIRST_HOST = re.compile(r"(?=[^,])([^,\[]*)(?:\[([^\[\],-]+)[^\[\]]*\]([^,\[]*))?(?:,|$)")
"""In a host list of SLURM: what is before the bracket, the first number in it, and what is behind it."""


def detect_rank(environment: Mapping[str, str], world_size: int) -> RankInfo | None:
    """Return the rank of this process; None if it was started alone, but the config has several processes.

    Args:
        environment: the environment variables.
        world_size: number of processes in the config (distributed_training.distributed_world_size).

    Raises:
        UserError: another number of processes was started.
    """
    info = _torchrun(environment) or _slurm(environment)
    if info is None:
        return ALONE if world_size == 1 else None
    if info.world_size != world_size:
        raise UserError(
            f"{info.started_by} started {info.world_size} processes, but the config is for {world_size} "
            f"(distributed_training.distributed_world_size, by run_config): "
            + (
                f"{info.world_size} copies would train independently"
                if world_size == 1
                else f"{world_size} would wait for each other"
            )
            + f"; start {world_size}, or set distributed_training.distributed_world_size={info.world_size}"
        )
    return info


def _torchrun(environment: Mapping[str, str]) -> RankInfo | None:
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        return None
    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    return RankInfo(rank, size, int(environment.get("LOCAL_RANK", rank)), "env://", "torchrun (RANK, WORLD_SIZE)")


def _slurm(environment: Mapping[str, str]) -> RankInfo | None:
    # Only inside a step (srun): a batch script or an interactive allocation has SLURM_NTASKS, too, but is one process.
    if "SLURM_STEP_ID" not in environment or "SLURM_PROCID" not in environment:
        return None
    if environment["SLURM_STEP_ID"] == _INTERACTIVE_STEP:
        return None
    # Neither is set in every step: SLURM_NTASKS only if the job was given a number of tasks.
    tasks = environment.get("SLURM_NTASKS", environment.get("SLURM_STEP_NUM_TASKS", "1"))
    rank, size = int(environment["SLURM_PROCID"]), int(environment.get("SLURM_STEP_NUM_TASKS", tasks))
    if size == 1:
        # A shell of `srun --pty` may start a run itself; a single task in a job for several may not.
        return None if int(tasks) == 1 else RankInfo(0, 1, 0, None, SRUN)
    host = environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"])
    port = environment.get("MASTER_PORT") or str(port_of(environment))
    return RankInfo(rank, size, int(environment.get("SLURM_LOCALID", 0)), f"tcp://{host}:{port}", SRUN)


def port_of(environment: Mapping[str, str]) -> int:
    """A port from the job's id: the same for all tasks of a job, seldom that of another job on the node, and below
    those of the kernel for outgoing connections (32768 and up)."""
    return 20000 + int(environment["SLURM_JOB_ID"]) % 12000


def first_host(nodes: str) -> str:
    """The first host in a host list of SLURM, such as ``node[07-09,12],other``.

    ``scontrol show hostnames`` prints the same, but is seldom available in a container (LINFORMER_PYTHON).

    Raises:
        UserError: the list cannot be read.
    """
    if (found := _FIRST_HOST.match(nodes)) is None:
        raise UserError(f"SLURM_STEP_NODELIST={nodes}: cannot be read; set MASTER_ADDR=HOST")
    return "".join(found.groups(default=""))


def torchrun_command(world_size: int, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command that starts ``world_size`` processes of ``linformer WORDS`` on this machine, and additional
    environment variables."""
    patience = f"--shutdown-timeout={_SHUTDOWN_SECONDS}"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"),
        # older releases of torch lack the option; their timeout is half a minute
        *([patience] if "--shutdown-timeout" in torch_run.get_args_parser().format_help() else []),
        *("--module", "linformer_fairseq.cli", *words),
    ]
    # torchrun's own default of one thread per process, set here to avoid its warning
    threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}
    return command, {**INSTALLED_MODULES_ONLY, **threads}


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants. torchrun's workers are in sessions of their own, so no group has them all."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended
        os.kill(pid, signal.SIGSTOP)  # so that it starts no more
        of_threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
        os.kill(pid, signal.SIGKILL)
        for child in itertools.chain.from_iterable(of_threads):
            kill_tree(int(child))
