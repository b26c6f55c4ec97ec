"""Reading the weights in a folder of Hugging Face's transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.shipped import WEIGHTS

INDEX = f"{WEIGHTS}.index.json"
"""Name of the list of shards, if the weights are in several files."""


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights, by name, of one file or of several shards.

    Raises:
        UserError: a file is missing, damaged or of another format, or a shard is not in the folder.
    """
    index = folder / INDEX
    names = [WEIGHTS]
    if index.is_file():
        found = read_object(index).get("weight_map")
        if not isinstance(found, dict) or not all(map(_is_file_name, found.values())):
            raise UserError(f"{index}: expected weight_map with the name of a file in this folder for each weight")
        names = sorted(set(found.values()))
    weights: dict[str, Tensor] = {}
    for name in names:
        weights |= _read_file(folder / name)
    return weights


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and name == Path(name).name and name.endswith(".safetensors") and "\0" not in name


def _read_file(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; expected weights as safetensors (transformers writes them with save_pretrained)"
        )
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged, or no safetensors file [{' '.join(str(error).split())}]") from None
    return weights
