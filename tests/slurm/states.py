"""What a run has come to, from its folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

from linformer_fairseq.checkpoints.reading import read_checkpoint


def attempts(run: Path) -> list[dict[str, Any]]:
    """Each time the run was started, from its run.json; none before the first."""
    file = run / "run.json"
    return json.loads(file.read_text())["attempts"] if file.is_file() else []


def updates_logged(run: Path) -> int:
    """Number of the last update in the run's log, 0 before the first."""
    log = run / "train.log"
    numbers = re.findall(r'"num_updates": "(\d+)".*"gnorm"', log.read_text()) if log.is_file() else []
    return int(numbers[-1]) if numbers else 0


def assert_same(one: Path, other: Path) -> None:
    """Two checkpoints have the same number of updates, parameters and state of Adam, bit for bit."""
    first, second = read_checkpoint(one), read_checkpoint(other)
    assert first["optimizer_history"][-1]["num_updates"] == second["optimizer_history"][-1]["num_updates"]
    assert first["model"].keys() == second["model"].keys()
    differing = [name for name, value in first["model"].items() if not torch.equal(value, second["model"][name])]
    states = [checkpoint["last_optimizer_state"]["state"] for checkpoint in (first, second)]
    assert states[0].keys() == states[1].keys()
    for number, state in states[0].items():
        for name, value in state.items():
            if not torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][number][name])):
                differing.append(f"Adam's {name} of parameter {number}")
    assert differing == []
