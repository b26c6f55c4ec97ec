"""Checkpoint files made by hand: the one builder of them for all tests, damage, and whether two are the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from linformer_fairseq.checkpoints.writing import write_checkpoint


def make_state(updates: int = 0, model: Mapping[str, Any] | None = None, cfg: Any = None) -> dict[str, Any]:
    """What ``Trainer.state_dict()`` returns, shortened to what readers of checkpoints take for granted.

    Args:
        updates: that the run had made.
        model: the weights; by default one small matrix full of ``updates``.
        cfg: fairseq's options, stored as plain dicts; by default a task's name alone.
    """
    if OmegaConf.is_config(cfg):
        cfg = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    return {
        "args": None,
        "cfg": cfg or {"task": {"_name": "masked_lm"}},
        "model": {"weight": torch.full((40, 5), float(updates))} if model is None else model,
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None},
                "num_updates": updates,
            }
        ],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": updates}},
        "last_optimizer_state": {"state": {}, "param_groups": []},
    }


def save(
    path: Path, updates: int = 0, model: Mapping[str, Any] | None = None, cfg: Any = None, *, checksum: bool = True
) -> Path:
    """A checkpoint of `make_state`'s arguments, with its folder; without ``checksum`` as any program saves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = make_state(updates, model, cfg)
    if checksum:
        write_checkpoint(state, path)
    else:
        torch.save(state, path)
    return path


def damage(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def same(one: Any, other: Any) -> bool:
    """Equal bit for bit, in nested containers too."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
