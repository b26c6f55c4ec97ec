"""Checkpoints as fairseq writes them, made by hand: small, and quick to damage."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture
def state() -> dict[str, Any]:
    """What Trainer.state_dict() returns for a model without a config dataclass, shortened."""
    return {
        "args": None,
        "cfg": {
            "model": argparse.Namespace(arch="roberta", encoder_layers=1),
            "task": {"_name": "masked_lm", "data": "corpus"},
        },
        "model": {"weight": torch.arange(6.0).view(2, 3)},
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None},
                "num_updates": 7,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 7}, "val_loss": 1.5},
        "last_optimizer_state": {"state": {}, "param_groups": []},
    }


@pytest.fixture
def checkpoint(tmp_path: Path, state: dict[str, Any]) -> Path:
    """The state, saved."""
    path = tmp_path / "checkpoint_last.pt"
    torch.save(state, path)
    return path
