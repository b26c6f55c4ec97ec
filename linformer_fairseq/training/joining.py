"""Joins the processes of a run, or fails with a reason.

fairseq itself would wait for half an hour, and then report a socket timeout.
"""

from __future__ import annotations

import logging
import os
import socket
from datetime import timedelta

import torch.distributed as dist

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.training.process_group import gather

logger = logging.getLogger(__name__)

# Between updates, processes may have to wait for rank 0, which alone reads and writes checkpoints.
_COLLECTIVE = timedelta(minutes=30)


class JoinError(UserError, RuntimeError):
    """Not all processes of a run joined."""


def join(backend: str, init_method: str, rank: int, world_size: int, seconds: int) -> list[str]:
    """Initialize the default process group of torch.distributed.

    Args:
        backend: ``nccl`` or ``gloo``.
        init_method: ``tcp://HOST:PORT``, or ``env://`` with torchrun.
        rank: of this process.
        world_size: number of processes.
        seconds: timeout for all to join.

    Returns:
        each process's host and process id, by rank.

    Raises:
        JoinError: some did not join in that time, or not ``world_size`` different ones did.
    """
    limit = timedelta(seconds=seconds)
    try:
        store, _, _ = next(iter(dist.rendezvous(init_method, rank, world_size, timeout=limit)))
        store.set_timeout(_COLLECTIVE)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=_COLLECTIVE)
        here = gather(f"{socket.gethostname()} (process {os.getpid()})")
    except (RuntimeError, ValueError) as error:  # torch's DistError is a RuntimeError
        reason = str(error).split("\n")[0]
        raise JoinError(
            f"rank {rank} of {world_size} on {socket.gethostname()}: not all processes met at {init_method} within "
            f"{seconds} s (run.join_timeout): {reason}. Were all started, and can they reach that host and port?"
        ) from error
    if len(set(here)) != world_size:
        raise JoinError(f"{world_size} processes were expected, but {len(set(here))} joined: {', '.join(here)}")
    logger.info("%d of %d processes joined: %s", len(here), world_size, "; ".join(here))
    return here
