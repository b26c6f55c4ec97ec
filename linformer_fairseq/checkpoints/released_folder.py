"""The folder of a released model: its weights, dictionaries and tokenizer.

`releasing` makes one from a checkpoint. The models that come with the package are such folders, too.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from linformer_fairseq.checkpoints.reading import unpickle
from linformer_fairseq.files import dictionary, run_record
from linformer_fairseq.files.dictionary import find_dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.provenance import MANIFEST
from linformer_fairseq.files.shipped import WEIGHTS, shipped_folder, shipped_models
from linformer_fairseq.files.task_inputs import TaskInputs, read_inputs
from linformer_fairseq.files.tokenizers import ENCODER, MERGES, SENTENCEPIECE, files_of, find_tokenizer

CHECKPOINT = "model.pt"
"""Name of the checkpoint in other folders of a model: fairseq's own, and those of `linformer import hf`."""
_INSIDE = (WEIGHTS, CHECKPOINT, "checkpoint_best.pt")
"""The weights in a folder; the last name is that of a run."""
_BESIDE = (dictionary.NAME, SENTENCEPIECE, ENCODER, MERGES, MANIFEST, run_record.NAME)
"""What is read with them, in the folders of the model and of its data, or in those below."""
TRANSFORMERS_CONFIG = "config.json"
"""What every model's folder of Hugging Face's transformers has, and of others only that of an exported graph."""
MODELING = "modeling_linformer.py"
"""The models' code in a folder that `linformer export hf` writes."""
ONNX, PROGRAM = "model.onnx", "model.pt2"
"""The graphs that `linformer export onnx` and `linformer export torch` write."""


def find_weights(name_or_path: str) -> str:
    """Return the path of the weights of a model.

    For a name of `shipped_models`, these are that model's. For a folder, they are the file in it: ``model.safetensors``
    (as `release` makes it), ``model.pt`` or, of a run, ``checkpoint_best.pt``. Any other path is returned unchanged.
    Names take precedence; ``./NAME`` is the file or the folder.
    """
    if name_or_path in shipped_models():
        return str(shipped_folder(name_or_path) / WEIGHTS)
    inside = (Path(name_or_path) / name for name in _INSIDE)
    return next((str(path) for path in inside if path.is_file()), name_or_path)


def existing_weights(name_or_path: str) -> Path:
    """Return the path of the weights of a model, as `find_weights` does, if they exist.

    Raises:
        UserError: there is no such file or folder, or it is a folder of Hugging Face's transformers or of a graph.
    """
    path = Path(find_weights(name_or_path))
    refuse_graph(path, name_or_path)
    if name_or_path not in shipped_models() and (Path(name_or_path) / TRANSFORMERS_CONFIG).is_file():
        folder = shlex.quote(name_or_path)
        raise UserError(
            f"{name_or_path}: is a folder of Hugging Face's transformers (it has {TRANSFORMERS_CONFIG}), which must be "
            f"converted first: a Linformer with `linformer import hf {folder} OUT`, a RoBERTa with `linformer convert "
            f"{folder} OUT --projected-dim K`"
        )
    if not path.is_file():
        what = f"a folder without {', '.join(_INSIDE)}" if path.is_dir() else "no such file or folder"
        raise UserError(
            f"{name_or_path}: {what}; expected a checkpoint, its run folder, a folder made by `linformer checkpoint "
            "release`, `linformer convert` or `linformer import hf`, or a model that comes with the package: "
            f"{', '.join(shipped_models())}"
        )
    return path


def refuse_graph(path: Path, name: str) -> None:
    """Raise if a file or folder, which the user calls ``name``, is that of an exported graph.

    Raises:
        UserError: it is.
    """
    if graph := next((file for file in (ONNX, PROGRAM) if path.name == file or (path / file).is_file()), None):
        raise UserError(
            f"{name}: an exported graph ({graph}) cannot be read back; give the checkpoint that it was made from"
        )


def training_data(weights: Path) -> Path:
    """Return the folder with the dictionary that a model was trained with.

    It is that of the weights or, if it has no dictionary, the one that the checkpoint names, which may be gone.

    Raises:
        UserError: the checkpoint names none.
    """
    if find_dictionary(weights.parent) or weights.suffix == ".safetensors":
        return weights.parent
    state = unpickle(str(weights), str(weights), mmap=True)
    try:
        task = (state.get("cfg") or {"task": state["args"]})["task"]
        folders = vars(task)["data"] if isinstance(task, Namespace) else task["data"]
    except (AttributeError, KeyError, TypeError):
        raise UserError(f"{weights}: not a checkpoint of fairseq: it does not name its data") from None
    return Path(str(folders).split(":")[0])


def files_read(name_or_path: str, data: Path | None = None) -> list[Path]:
    """The files that are read when a model is used, which no output may replace; some may not exist.

    Args:
        name_or_path: the model, as for `find_weights`.
        data: the folder of its data; None: the one that the checkpoint names, if it can be read.
    """
    weights = Path(find_weights(name_or_path))
    if data is None:
        with suppress(UserError, OSError):  # whoever reads the model reports it
            data = training_data(weights)
    folders = [weights.parent] if data is None else [weights.parent, data]
    inside = [folder / part for folder in folders for part in ("", "input0", "label")]
    return [weights, *(folder / name for folder in inside for name in _BESIDE)]


def known_inputs(weights: Path, data: Path) -> TaskInputs:
    """How the inputs of a classifier's training were prepared.

    Args:
        weights: file of the model. What the run.json beside it says comes first: the task may have been prepared anew.
        data: folder of the training data, or the model's.

    Raises:
        UserError: run.json, or the manifest of the data, is damaged.
    """
    recorded = None
    if (weights.parent / run_record.NAME).is_file():
        recorded = run_record.read_record(weights.parent).inputs
    return read_inputs(data) if recorded is None else recorded


def tokenizer_files(data: Path) -> list[Path]:
    """Find the tokenizer of prepared data, in its folder or in ``input0``.

    Raises:
        ValueError: there is none.
    """
    try:
        options = find_tokenizer([data, data / "input0"])
    except FileNotFoundError as error:
        raise ValueError(
            f"{error}. Users of the model need the tokenizer that the data were made with: put it into {data}"
        ) from None
    return files_of(options)
