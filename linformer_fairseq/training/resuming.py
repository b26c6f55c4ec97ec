"""The command that resumes a run, for messages."""

from __future__ import annotations

from typing import Any

RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
"""fairseq's options with which a run begins anew in some way."""


def command_to_resume(cfg: Any) -> str:
    """Return "the same command", and without which of its options: those that make a run begin anew.

    Args:
        cfg: fairseq's checkpoint options.
    """
    without = [f"--restore-file {cfg.restore_file}"] if cfg.restore_file != "checkpoint_last.pt" else []
    without += [f"--{name.replace('_', '-')}" for name in RESETS if getattr(cfg, name)]
    return "the same command" + (f" without {', '.join(without)}" if without else "")
