"""A run of several processes can be resumed with torch 2.6 and later.

What fairseq does: rank 0 reads the checkpoint and broadcasts it as a pickle (``broadcast_object``), which the other
ranks read with ``torch.load`` and the default of ``weights_only``. From torch 2.6 on, this refuses fairseq's own
placeholder for tensors and the omegaconf containers to which rank 0 has converted the config, so that no run of several
processes can be resumed. Observed with two gloo processes and torch 2.13.

The patch: the placeholder is allowed during the broadcast, and configs are sent as plain dicts. A config that was
converted from an old checkpoint's ``args`` contains every config class of fairseq, which could not be listed; no rank
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
