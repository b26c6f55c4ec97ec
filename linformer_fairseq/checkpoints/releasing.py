"""Makes the folder of a released model from one or several checkpoints and the folder of their training data."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linformer_fairseq.checkpoints.averaging import averaged
from linformer_fairseq.checkpoints.dictionaries import check_classes, check_tokens
from linformer_fairseq.checkpoints.released_file import released
from linformer_fairseq.checkpoints.released_folder import known_inputs, tokenizer_files
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.dictionary import NAME, find_dictionary
from linformer_fairseq.files.shipped import WEIGHTS
from linformer_fairseq.files.weight_names import HEADS, TOKENS, head_output

_DICTIONARIES = ("dict.txt", "input0/dict.txt", "label/dict.txt")


def release(checkpoint: Path, data: Path, out: Path, others: Sequence[Path] = ()) -> list[Path]:
    """Make the folder of a released model, atomically.

    Args:
        checkpoint: of a pretraining or finetuning.
        data: the folder of its training data, with dictionaries and tokenizer. How the inputs of a
            task were prepared is kept.
        out: the folder, which must not exist.
        others: more checkpoints of the same model: the mean of the weights of all is released.

    Returns:
        the files in it.

    Raises:
        ValueError: ``out`` exists, ``data`` has no dictionary or no tokenizer, or a checkpoint cannot be used; the
            message names it.
        UserError: a checkpoint was trained with other dictionaries.
        OSError: a file cannot be read or written.
    """
    dictionaries = [name for name in _DICTIONARIES if (data / name).is_file()]
    if not dictionaries:
        raise ValueError(f"{data}: expected the folder of the training data, with dict.txt or input0/dict.txt")
    tokenizer = tokenizer_files(data)
    with new_folder(out) as folder:
        state = averaged([checkpoint, *others])
        classifies = _classifies(state)
        if "input0/dict.txt" not in dictionaries and classifies:
            raise ValueError(f"{data}: expected the folder of the classifier's task, with input0/dict.txt")
        try:
            content = released(state)
        except ValueError as error:
            what = f"the mean of {', '.join(map(str, (checkpoint, *others)))}" if others else str(checkpoint)
            raise ValueError(f"{what}: {error}") from error
        for one in (checkpoint, *others):
            _check(one, state, data)
        for name in dictionaries:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / name, folder / name)
        for path in tokenizer:
            shutil.copyfile(path, folder / path.name)
        if classifies:
            known_inputs(checkpoint, data).write(folder)
        (folder / WEIGHTS).write_bytes(content)
    return sorted(path for path in out.rglob("*") if path.is_file())


def _classifies(state: Mapping[str, Any]) -> bool:
    """Whether a model is that of a task: one that predicts masked tokens can carry heads along."""
    criterion = (state.get("cfg") or {}).get("criterion") or {}
    return criterion.get("_name") != "masked_lm" and any(name.startswith(HEADS) for name in state["model"])


def _check(checkpoint: Path, state: Mapping[str, Any], data: Path) -> None:
    """Raise unless a checkpoint, one of those that ``state`` is the mean of, was trained with these dictionaries."""
    weights, config = state["model"], state["cfg"]
    dict_txt = find_dictionary(data)
    if dict_txt is not None and TOKENS in weights:
        check_tokens(checkpoint, weights[TOKENS].size(0), "sharing" in config["model"], dict_txt)
    criterion = config.get("criterion") or {}
    output = weights.get(head_output(str(criterion.get("classification_head_name"))))
    labels = data / "label" / NAME
    if output is not None and labels.is_file() and not criterion.get("regression_target"):
        check_classes(checkpoint, output.size(0), labels)
