"""torchrun starts one run of several processes, also on CPUs and on machines with one GPU each.

What fairseq does: by default a run has as many processes as this machine has GPUs. Where that is one or none, it does
not look at torchrun's variables, and each process trains a run of its own; all of them write the same checkpoints. If
the number is given, it fails on a CPU with "integer modulo by zero".

The patch: torchrun's number of processes, if it is above one, is that of the run. On CPUs, fairseq needs ``--cpu
--distributed-backend gloo --ddp-backend legacy_ddp`` in addition. ``fairseq-hydra-train`` imports the plugin later, so
it has no such help.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import utils

_OF_TORCHRUN = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}


def _from_torchrun(infer_init_method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(infer_init_method)
    def infer(cfg: Any, force_distributed: bool = False) -> None:
        started = int(os.environ["WORLD_SIZE"]) if os.environ.keys() >= _OF_TORCHRUN else 1
        if started == 1 or cfg.distributed_init_method is not None or cfg.tpu or cfg.pipeline_model_parallel:
            infer_init_method(cfg, force_distributed)
            return
        gpus = torch.cuda.device_count()
        cfg.distributed_init_method = "env://"
        cfg.distributed_world_size = started
        cfg.distributed_rank = int(os.environ["RANK"])
        cfg.distributed_no_spawn = True
        cfg.device_id = cfg.distributed_rank % max(gpus, 1)  # as fairseq's
        if gpus:
            torch.cuda.set_device(cfg.device_id)

    return infer


REPLACED = ((utils, "infer_init_method", _from_torchrun),)
