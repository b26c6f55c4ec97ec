"""The folder of a model to hand on: weights, dictionary and tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from linformer_fairseq import shipped_models
from linformer_fairseq.compat.checkpoint_loading import read_checkpoint
from linformer_fairseq.released_model import released
from linformer_fairseq.tokenizer_files import find_tokenizer

_DICTIONARIES = ("dict.txt", "input0/dict.txt", "label/dict.txt")


def release(checkpoint: Path, data: Path, out: Path) -> list[Path]:
    """Make the folder, whole or not at all.

    Args:
        checkpoint: of a pretraining or a finetuning.
        data: the folder that it was trained on, with its dictionaries and its tokenizer.
        out: the folder, which must not exist.

    Returns:
        the files in it.

    Raises:
        ValueError: ``out`` exists, ``data`` has no dictionary, or the checkpoint cannot be used; which one is named.
        OSError: a file cannot be read or written.
    """
    if out.exists():
        raise ValueError(f"{out}: is there already; remove it, or choose another folder")
    dictionaries = [name for name in _DICTIONARIES if (data / name).is_file()]
    if not dictionaries:
        raise ValueError(f"{data}: expected the folder of the training data, with dict.txt or input0/dict.txt")
    tokenizer = [Path(path) for path in find_tokenizer([data]).values() if Path(path).is_file()]
    state = read_checkpoint(checkpoint)
    try:
        content = released(state)
    except ValueError as error:
        raise ValueError(f"{checkpoint}: {error}") from error
    temporary = out.with_name(out.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for name in dictionaries:
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / name, temporary / name)
        for path in tokenizer:
            shutil.copyfile(path, temporary / path.name)
        (temporary / shipped_models.FILE).write_bytes(content)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(path for path in out.rglob("*") if path.is_file())
