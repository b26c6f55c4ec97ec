"""The models that come with the package: a folder each, with the weights, the dictionary and the tokenizer."""

from __future__ import annotations

from pathlib import Path

FILE = "model.safetensors"
"""Name of the weights in a model's folder."""
_FOLDER = Path(__file__).parent / "weights"


def names() -> list[str]:
    """Of the models that are there."""
    return sorted(path.parent.name for path in _FOLDER.glob(f"*/{FILE}"))


def folder(name: str) -> Path:
    """Of the model ``name``, which is one of `names`."""
    return _FOLDER / name


def checkpoint(name_or_path: str) -> str:
    """The weights of the model of that name, or in a folder like those here; any other path as it is.

    A path of one part is a name first; ``./NAME`` is the file or the folder.
    """
    if name_or_path in names():
        return str(folder(name_or_path) / FILE)
    inside = Path(name_or_path) / FILE
    return str(inside) if inside.is_file() else name_or_path
