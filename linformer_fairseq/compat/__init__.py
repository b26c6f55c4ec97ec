"""Mends of fairseq 0.12 for a current torch, one file each.

``install()`` applies them all. They change fairseq's own functions in place, so that both entry points
(``fairseq-train`` and ``fairseq-hydra-train``), the hub interface and every task profit, not only ours.
Nothing above this package is imported here: only fairseq and torch.
"""

from linformer_fairseq.compat import (
    atomic_copy,
    bf16_devices,
    broadcast_state,
    byte_pieces,
    checkpoint_loading,
    fresh_masks,
    log_file,
    numpy_long,
    restore_errors,
)

__all__ = ["install"]

_MENDS = (
    checkpoint_loading,
    restore_errors,
    broadcast_state,
    atomic_copy,
    fresh_masks,
    log_file,
    bf16_devices,
    byte_pieces,
    numpy_long,
)


def install() -> None:
    """Apply every mend. Calling it again changes nothing."""
    for mend in _MENDS:
        mend.install()
