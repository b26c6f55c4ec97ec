"""Several processes resume: the checkpoint's dict reaches the other ranks.

What fairseq does: rank 0 reads the checkpoint and broadcasts it as a pickle (``broadcast_object``), which the
others open with a ``torch.load`` that leaves ``weights_only`` to torch. From torch 2.6 on they refuse
fairseq's own placeholder for tensors and the omegaconf containers into which rank 0 has turned the config, so
that no run of several processes can be resumed. Observed with two gloo processes and torch 2.13.

The patch: the placeholder is allowed while the broadcast runs, and configs travel as plain dicts. A config
made from an old checkpoint's ``args`` names every config class of fairseq and could not be listed; no rank
reads it after the broadcast.
"""

import functools
from collections.abc import Callable
from typing import Any

from fairseq.distributed import utils
from omegaconf import OmegaConf

from linformer_fairseq.checkpoints.allowed_globals import allowed_globals


def _plain(value: Any) -> Any:
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value, resolve=True, enum_to_str=True)
    return value


def _with_allowed_globals(broadcast_object: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(broadcast_object)
    def broadcast(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, dict):
            obj = {key: _plain(value) for key, value in obj.items()}
        with allowed_globals(utils._TensorPlaceholder):
            return broadcast_object(obj, *args, **kwargs)

    return broadcast


REPLACED = ((utils, "broadcast_object", _with_allowed_globals),)
