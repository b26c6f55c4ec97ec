"""Checkpoints made by hand, and damaged."""

from pathlib import Path
from typing import Any

import torch


def state_after(updates: int, epoch: int = 1) -> dict[str, Any]:
    """What Trainer.state_dict() returns, shortened."""
    return {
        "args": None,
        "cfg": {"task": {"_name": "masked_lm"}},
        "model": {"weight": torch.full((40, 5), float(updates))},
        "criterion": None,
        "optimizer_history": [{"num_updates": updates}],
        "extra_state": {"train_iterator": {"epoch": epoch, "iterations_in_epoch": updates}},
        "last_optimizer_state": {"state": {}, "param_groups": []},
    }


def damage(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
