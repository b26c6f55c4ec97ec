"""The folder of a model to hand on: its weights, dictionaries and tokenizer.

`release` makes one of a checkpoint. The models that come with the package are such folders, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.released_file import released
from linformer_fairseq.files.tokenizers import find_tokenizer

WEIGHTS = "model.safetensors"
"""Name of the weights in a model's folder."""
_SHIPPED = Path(__file__).parent.parent / "weights"
_DICTIONARIES = ("dict.txt", "input0/dict.txt", "label/dict.txt")


def release(checkpoint: Path, data: Path, out: Path) -> list[Path]:
    """Make the folder of a model to hand on, whole or not at all.

    Args:
        checkpoint: of a pretraining or a finetuning.
        data: the folder that it was trained on, with its dictionaries and its tokenizer.
        out: the folder, which must not exist.

    Returns:
        the files in it.

    Raises:
        ValueError: ``out`` exists, ``data`` has no dictionary or no tokenizer, or the checkpoint cannot be used; which
            one is named.
        OSError: a file cannot be read or written.
    """
    require_new(out)
    dictionaries = [name for name in _DICTIONARIES if (data / name).is_file()]
    if not dictionaries:
        raise ValueError(f"{data}: expected the folder of the training data, with dict.txt or input0/dict.txt")
    tokenizer = tokenizer_files(data)
    state = read_checkpoint(checkpoint)
    try:
        content = released(state)
    except ValueError as error:
        raise ValueError(f"{checkpoint}: {error}") from error
    with new_folder(out) as folder:
        for name in dictionaries:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / name, folder / name)
        for path in tokenizer:
            shutil.copyfile(path, folder / path.name)
        (folder / WEIGHTS).write_bytes(content)
    return sorted(path for path in out.rglob("*") if path.is_file())


def require_new(out: Path) -> None:
    """Raise ValueError if ``out`` exists."""
    if out.exists():
        raise ValueError(f"{out}: is there already; remove it, or choose another folder")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Make a folder, whole or not at all: ``with new_folder(out) as folder`` gives a temporary one to be filled.

    At the end of the block it is renamed to ``out``; if the block raises, it is removed.

    Raises:
        ValueError: ``out`` exists.
        OSError: a folder cannot be made or renamed.
    """
    require_new(out)
    temporary = out.with_name(out.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def shipped_models() -> list[str]:
    """List the names of the models that come with the package."""
    return sorted(path.parent.name for path in _SHIPPED.glob(f"*/{WEIGHTS}"))


def shipped_folder(name: str) -> Path:
    """Return the folder of a model that comes with the package.

    Args:
        name: one of `shipped_models`.
    """
    return _SHIPPED / name


def find_weights(name_or_path: str) -> str:
    """Return the path of the weights of a model.

    A name of `shipped_models` gives that model's, a folder as `release` makes it the file in it; any other path is
    returned as it is. A path of one part is a name first; ``./NAME`` is the file or the folder.
    """
    if name_or_path in shipped_models():
        return str(shipped_folder(name_or_path) / WEIGHTS)
    inside = Path(name_or_path) / WEIGHTS
    return str(inside) if inside.is_file() else name_or_path


def tokenizer_files(data: Path) -> list[Path]:
    """Find the tokenizer of prepared data, in its folder or in that of its first sentences.

    Raises:
        ValueError: there is none.
    """
    try:
        options = find_tokenizer([data, data / "input0"])
    except FileNotFoundError as error:
        raise ValueError(
            f"{error}. Whoever gets the model needs the tokenizer that the data were made with: put it into {data}"
        ) from None
    return [Path(path) for name, path in options.items() if name != "bpe"]
