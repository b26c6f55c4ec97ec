"""Reading the weights that other programs wrote as safetensors."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from linformer_fairseq.files.errors import UserError


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The weights in a file, by name.

    Raises:
        UserError: there is no such file, or it is damaged or of another format.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; expected weights as safetensors (transformers writes them with save_pretrained)"
        )
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged, or no safetensors file [{' '.join(str(error).split())}]") from None
    return weights
