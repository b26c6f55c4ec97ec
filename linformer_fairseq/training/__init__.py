"""What happens to a training process: checkpoints that can be trusted, faults that are named.

``install()`` puts the hooks into fairseq's own functions, so that ``fairseq-train``, ``fairseq-hydra-train`` and
``linformer`` all have them. One file per behaviour.
"""

from linformer_fairseq.training import (
    batching,
    data_workers,
    epoch_position,
    lost_process,
    not_finite,
    not_learning,
    recovery,
    saving,
    stopping,
)

__all__ = ["install"]

_HOOKS = (saving, recovery, epoch_position, batching, lost_process, not_finite, not_learning, data_workers, stopping)


def install() -> None:
    """Install every hook. Calling it again changes nothing."""
    for hook in _HOOKS:
        hook.install()
