"""What resuming a run is: whether a checkpoint does it, and the command for it, for messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LAST = "checkpoint_last.pt"
"""fairseq's default of ``restore_file``, which is in the run's folder."""
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
"""fairseq's options with which a run begins anew in some way."""


def from_own(cfg: Any) -> bool:
    """Whether a run loads the last checkpoint of its own folder, if there is one: fairseq's default, or named.

    Args:
        cfg: fairseq's checkpoint options.
    """
    own = Path(cfg.save_dir, LAST).absolute()
    return cfg.restore_file == LAST or Path(cfg.restore_file).absolute() == own


def resumed(extra_state: Any, trainer: Any) -> bool:
    """Whether fairseq's ``load_checkpoint``, which has returned ``extra_state``, resumed a run.

    With ``finetune_from_model`` or without the optimizer's state, it loads only parameters, and updates begin at 0.
    """
    return extra_state is not None and trainer.get_num_updates() > 0


def saves_last(cfg: Any) -> bool:
    """Whether the run saves the checkpoint from which it can be resumed.

    Args:
        cfg: fairseq's checkpoint options.
    """
    return not (cfg.no_save or cfg.no_last_checkpoints)


def command_to_resume(cfg: Any) -> str:
    """Return "the same command", and without which of its options: those that make a run begin anew.

    Args:
        cfg: fairseq's checkpoint options.
    """
    without = [] if from_own(cfg) else [f"--restore-file {cfg.restore_file}"]
    without += [f"--{name.replace('_', '-')}" for name in RESETS if getattr(cfg, name)]
    return "the same command" + (f" without {', '.join(without)}" if without else "")
