"""Which of a run's processes this one is, as torchrun or SLURM tell it.

Refused is every launch that would train nothing, or several copies side by side in one folder: the number of processes
that were started must be the one that the config was made for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.distributed import run as torch_run

from linformer_fairseq.files.errors import UserError

# torchrun kills its workers that long after it passed a signal on: time for the update that runs and a checkpoint.
_SHUTDOWN_SECONDS = 600


@dataclass(frozen=True)
class RankInfo:
    """Which one of a run's processes a process is."""

    rank: int
    world_size: int
    local_rank: int
    init_method: str | None
    """How torch.distributed meets; None: alone."""
    started_by: str


_SRUN = "srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS)"
ALONE = RankInfo(0, 1, 0, None, "this command")


def detect_rank(environment: Mapping[str, str], world_size: int) -> RankInfo | None:
    """Find out which process this one is; None where nothing started it as one of many, but many are wanted.

    Args:
        environment: the process's variables.
        world_size: processes that the config wants (distributed_training.distributed_world_size).

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
                f"{info.world_size} copies would train side by side"
                if world_size == 1
                else f"{world_size} would wait for each other"
            )
            + f"; start {world_size}, or say distributed_training.distributed_world_size={info.world_size}"
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
    rank, size = (
        int(environment["SLURM_PROCID"]),
        int(environment.get("SLURM_STEP_NUM_TASKS", environment["SLURM_NTASKS"])),
    )
    if size == 1:
        # A shell inside `srun --pty` may start what it likes; one task of a job that is for several may not.
        return None if int(environment["SLURM_NTASKS"]) == 1 else RankInfo(0, 1, 0, None, _SRUN)
    host = environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"])
    port = environment.get("MASTER_PORT") or str(port_of(environment))
    return RankInfo(rank, size, int(environment.get("SLURM_LOCALID", 0)), f"tcp://{host}:{port}", _SRUN)


def port_of(environment: Mapping[str, str]) -> int:
    """A port that every task of a job finds by itself, that two jobs on a node seldom share, and that lies below those
    that the kernel gives to outgoing connections."""
    return 20000 + int(environment["SLURM_JOB_ID"]) % 12000


def first_host(nodes: str) -> str:
    """First of the hosts that SLURM lists, ``node[07-09,12],other`` for example.

    ``scontrol show hostnames`` says the same, but a task that runs in a container (LINFORMER_PYTHON) seldom has it.

    Raises:
        UserError: the list cannot be read.
    """
    head, bracket, rest = nodes.split(",", 1)[0].partition("[")
    if bracket:
        head, _, rest = nodes.partition("[")
        numbers, closed, tail = rest.partition("]")
        if not closed:
            raise UserError(f"SLURM_STEP_NODELIST={nodes}: cannot be read; say MASTER_ADDR=HOST")
        head += numbers.split(",")[0].split("-")[0] + tail.split(",")[0]
    if not head or "[" in head:
        raise UserError(f"SLURM_STEP_NODELIST={nodes}: cannot be read; say MASTER_ADDR=HOST")
    return head


def torchrun_command(world_size: int, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command that starts ``world_size`` processes of ``linformer WORDS`` on this machine, and what it adds to the
    environment."""
    patience = f"--shutdown-timeout={_SHUTDOWN_SECONDS}"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"),
        # without the option, which older releases of torch lack, it is half a minute
        *([patience] if "--shutdown-timeout" in torch_run.get_args_parser().format_help() else []),
        *("--module", "linformer_fairseq.cli", *words),
    ]
    # one thread each unless told otherwise: torchrun would say so in a warning
    return command, {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}
