"""A checkpoint made by hand: small, and quick to damage."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.checkpoint_files import make_state


@pytest.fixture
def state() -> dict[str, Any]:
    """What Trainer.state_dict() returns for a model without a config dataclass."""
    cfg = {
        "model": argparse.Namespace(arch="roberta", encoder_layers=1),
        "task": {"_name": "masked_lm", "data": "corpus"},
    }
    state = make_state(7, {"weight": torch.arange(6.0).view(2, 3)}, cfg)
    state["extra_state"]["val_loss"] = 1.5
    return state


@pytest.fixture
def checkpoint(tmp_path: Path, state: dict[str, Any]) -> Path:
    """The state, saved as any program saves it: without a checksum."""
    path = tmp_path / "checkpoint_last.pt"
    torch.save(state, path)
    return path
