"""The file of a released model: weights, by default in half precision, and the options to build it, as safetensors.

fairseq loads it like any checkpoint, but it has no optimizer state and no pickle. Its metadata has the options of
model, task and criterion as JSON, without paths, and the SHA-256 of the file, computed with zeros in place of these
digits. Equal tensors, such as a tied embedding and output layer, are stored once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, BinaryIO

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from linformer_fairseq.files.json_records import parse, shortened

FORMAT = "linformer-fairseq 1"
MEAN_OF = "mean_of"
"""The number of checkpoints whose mean the weights are, in a checkpoint and in the metadata; absent for one."""
_PARTS = ("model", "task", "criterion")
_ZEROS = "0" * hashlib.sha256().digest_size * 2
_LENGTH = 8
"""Number of bytes before the header, which encode its length."""


def is_released(file: BinaryIO) -> bool:
    """Return whether a file, open for reading, begins as safetensors files do."""
    file.seek(0)
    return file.read(_LENGTH + 1)[_LENGTH:] == b"{"


def released(state: Mapping[str, Any], dtype: torch.dtype = torch.float16) -> bytes:
    """Return the content of the file for a checkpoint's model.

    Args:
        state: as `reading.read_checkpoint` returns it, with ``cfg``.
        dtype: of the weights in the file.

    Raises:
        ValueError: it has no ``cfg``, or a weight that is not finite in that precision.
    """
    if state.get("cfg") is None:
        raise ValueError("has only options of fairseq-train (args); load and save it with a newer fairseq first")
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    for name, tensor in state["model"].items():
        stored = (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous()
        if not stored.isfinite().all():
            precision = "half precision" if dtype == torch.float16 else str(dtype).removeprefix("torch.")
            raise ValueError(f"{name} has values that are not finite in {precision}")
        # By value, not by storage: a checkpoint of half precision training has a copy for each name.
        first = next((other for other, kept in tensors.items() if _same(kept, stored)), None)
        if first is None:
            tensors[name] = stored
        else:
            same[name] = first
    options = {part: _without_paths(_plain(state["cfg"][part])) for part in _PARTS}
    facts = {
        "format": FORMAT,
        "sha256": _ZEROS,
        "options": json.dumps(options),
        "same": json.dumps(same),
        "updates": str(int(state["optimizer_history"][-1]["num_updates"])),
    }
    if MEAN_OF in state:
        facts[MEAN_OF] = str(state[MEAN_OF])
    return signed(save(tensors, facts))


def signed(content: bytes) -> bytes:
    """Put the SHA-256 of a file that has zeros in its place into it."""
    return content.replace(_ZEROS.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def read_released(file: BinaryIO) -> dict[str, Any]:
    """Read the checkpoint that `released` was given: weights in the file's precision, without optimizer state.

    Raises:
        ValueError: it is damaged, or is not such a file.
    """
    content = file.read()
    try:
        length = int.from_bytes(content[:_LENGTH], "little")
        facts = parse(content[_LENGTH : _LENGTH + length].decode())["__metadata__"]
        if facts["format"] != FORMAT:
            raise ValueError(
                f"its format is {shortened(facts['format'])}; expected {FORMAT!r}. A file of Hugging Face's "
                "transformers ('pt') is read by `linformer convert` (RoBERTa) and `linformer import hf` (Linformer)"
            )
        unsigned = content.replace(facts["sha256"].encode(), _ZEROS.encode(), 1)
        if hashlib.sha256(unsigned).hexdigest() != facts["sha256"]:
            raise ValueError("its checksum does not match the one in it")
        tensors: dict[str, Tensor] = load(content)
        tensors |= {name: tensors[first] for name, first in parse(facts["same"]).items()}
        options = OmegaConf.create({"_name": None, "bpe": None, **parse(facts["options"])})
        updates = int(facts["updates"])
        mean = {MEAN_OF: int(facts[MEAN_OF])} if MEAN_OF in facts else {}
    except (
        *(KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError),
        *(SafetensorError, OmegaConfBaseException),
    ) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"it is damaged, or was not written by `linformer checkpoint release` [{said}]") from error
    return checkpoint_of(options, tensors, updates) | mean


def checkpoint_of(options: Any, weights: Mapping[str, Tensor], updates: int) -> dict[str, Any]:
    """What fairseq's trainer would save of a model, without the state of its training.

    Args:
        options: ``cfg``.
        weights: by fairseq's names.
        updates: number of updates of the weights.
    """
    return {
        "args": None,
        "cfg": options,
        "model": weights,
        "optimizer_history": [{"num_updates": updates, "optimizer_name": "", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
        "task_state": {},
    }


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _plain(options: Any) -> Any:
    if OmegaConf.is_config(options):
        return OmegaConf.to_container(options, resolve=True, enum_to_str=True)
    return options if isinstance(options, dict) or options is None else dict(vars(options))


def _without_paths(options: Any, name: str | None = None) -> Any:
    """Return options with "." in place of paths, which are meaningless on another machine.

    ``data`` always is one; a classification head may have a slash in its name.
    """
    if isinstance(options, dict):
        return {key: _without_paths(value, key) for key, value in options.items()}
    if not isinstance(options, str) or name == "classification_head_name":
        return options
    is_path = name == "data" or PurePath(options).is_absolute() or len(PurePath(options).parts) > 1
    return "." if is_path else options
