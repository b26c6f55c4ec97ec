"""A signal to a ``fairseq-train`` that started a process for each GPU reaches these processes.

What fairseq does: without torchrun or SLURM, ``fairseq-train`` starts the processes of a machine with
torch.multiprocessing. SIGTERM ends only the process that waits for them, and the others train on.

The patch: it hands the signal on to them and ends with their status, without a traceback: 85 if they saved a checkpoint
(`stopping`). ``fairseq-hydra-train`` imports the plugin only in these processes, so this does not apply to it.
"""

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from fairseq.distributed import utils
from torch.multiprocessing import ProcessExitedException

from linformer_fairseq.training.signals import STOPPING


def _handing_on(call_main: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call_main)
    def call(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        received: list[int] = []

        def hand_on(number: int, frame: FrameType | None) -> None:
            children = multiprocessing.active_children()
            if not children:
                raise SystemExit(128 + number)
            received.append(number)
            for child in children:
                assert child.pid is not None  # it has been started
                os.kill(child.pid, number)

        distributed = cfg.distributed_training
        if distributed.distributed_init_method is None:
            utils.infer_init_method(distributed)  # as call_main would: it also notices torchrun and SLURM
        spawns = distributed.distributed_init_method is not None and not distributed.distributed_no_spawn
        if not spawns or threading.current_thread() is not threading.main_thread():  # only there may handlers be set
            return call_main(cfg, main, **kwargs)
        before = {number: signal.signal(number, hand_on) for number in STOPPING}
        try:
            return call_main(cfg, main, **kwargs)
        except ProcessExitedException as error:
            if received:
                raise SystemExit(error.exit_code if error.exit_code > 0 else 128 + received[0]) from None
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    return call


REPLACED = ((utils, "call_main", _handing_on),)
