"""The mean of the weights of several checkpoints of one model ("model soups", Wortsman et al., 2022).

The mean of finetunings that began with the same weights, those of the classification head too, and read the examples in
different orders can be better than each of them; here, that of finetunings with different heads was not. fairseq has a
script for such means, ``scripts/average_checkpoints.py``, which is not in its wheels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.released_file import MEAN_OF


def averaged(checkpoints: Sequence[Path]) -> dict[str, Any]:
    """Return the first checkpoint, with the mean of all in place of its weights.

    Args:
        checkpoints: files, all of the same model.

    Returns:
        as `read_checkpoint` does, with the number of several checkpoints as `released_file.MEAN_OF`. Their
        floating-point weights are in float32; others are those of the first.

    Raises:
        ValueError: their weights have different names or shapes, and the message has both files; or one is no tensor.
        CheckpointError: one is damaged, or is no checkpoint.
        OSError: one cannot be read.
    """
    first, *others = checkpoints
    state = read_checkpoint(first)
    weights = _weights(first, state)
    if not others:
        return state
    sums = {name: weight.float() for name, weight in weights.items() if weight.is_floating_point()}
    for path in others:
        added = _weights(path, read_checkpoint(path))
        for name in sorted(weights.keys() | added.keys()):
            one, other = (tuple(found[name].shape) if name in found else None for found in (weights, added))
            if one != other:
                raise ValueError(
                    f"{path}: {_described(name, other)}, but {first} {_described(name, one)}; expected checkpoints of "
                    "the same model, with the same classification head"
                )
        # Not in place: tied weights have the same storage.
        sums = {name: total + added[name].float() for name, total in sums.items()}
    mean = weights | {name: total / len(checkpoints) for name, total in sums.items()}
    return state | {"model": mean, MEAN_OF: len(checkpoints)}


def _weights(path: Path, state: Mapping[str, Any]) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = state["model"]
    for name, weight in weights.items():
        if not isinstance(weight, Tensor):
            raise ValueError(f"{path}: its weight {name} is a {type(weight).__name__}; expected a tensor")
    return weights


def _described(name: str, shape: tuple[int, ...] | None) -> str:
    return f"has no weight {name}" if shape is None else f"has the weight {name} of shape {shape}"
