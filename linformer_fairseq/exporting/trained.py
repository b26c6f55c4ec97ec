"""A trained Linformer as it is exported: weights, options, dictionary, tokenizer and the names of its classes."""

from __future__ import annotations

import re
import warnings
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from linformer_fairseq.checkpoints.dictionaries import check_classes, check_tokens
from linformer_fairseq.checkpoints.released_folder import existing_weights, known_inputs, training_data
from linformer_fairseq.core import signature_of
from linformer_fairseq.core.signature import check_signature
from linformer_fairseq.files.dictionary import NAME, find_dictionary, read_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.files.tokenizers import find_tokenizer
from linformer_fairseq.files.weight_names import ENCODER, HEADS, POSITIONS, TOKENS, UNUSED_POSITIONS, head_output
from linformer_fairseq.models.options import attention_settings, fill_defaults
from linformer_fairseq.models.stored import read_roberta, stored_options

_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")
_HEAD = re.compile(re.escape(HEADS) + r"(.+)\.out_proj\.weight")
_NORMALIZED = re.compile(re.escape(HEADS) + r"(.+)\.out_proj\.weight_orig")
"""What spectral normalization stores in place of the weight."""


@dataclass(frozen=True)
class CheckpointModel:
    """What a checkpoint alone says of its model."""

    path: Path
    state: Mapping[str, Any]
    """All of the checkpoint, as fairseq loads it."""
    options: Namespace
    """All options of the model."""
    head: str | None
    """The name of the classification head; None of a masked language model, whatever heads it carries along."""
    regression: bool
    """The head predicts numbers."""

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """By fairseq's names."""
        found: Mapping[str, Tensor] = self.state["model"]
        return found

    @property
    def vocabulary(self) -> int:
        """The number of rows of the embedding."""
        return self.weights[TOKENS].size(0)

    @property
    def outputs(self) -> int:
        """The number of outputs of the classification head; 0 without one."""
        return 0 if self.head is None else self.weights[head_output(self.head)].size(0)


@dataclass(frozen=True)
class TrainedModel(CheckpointModel):
    """The same with what is in the folder of its data."""

    dict_txt: Path
    """The dictionary of the input."""
    tokenizer: dict[str, str]
    """As `files.tokenizers.find_tokenizer` returns it."""
    labels: tuple[str, ...]
    """The names of the head's outputs."""
    inputs: TaskInputs
    """How its training data were prepared."""


def read_model(name_or_path: str) -> CheckpointModel:
    """Read the checkpoint of a model of this project.

    Args:
        name_or_path: see `checkpoints.released_folder.existing_weights`.

    Raises:
        UserError: there is no such file, or it is none of a Linformer; the message names it.
        ValueError: the checkpoint is damaged, or is none.
    """
    path = existing_weights(name_or_path)
    state = read_roberta(path)
    options = _options(path, state)
    criterion = state["cfg"].criterion
    head = _head(path, state["model"], criterion)
    return CheckpointModel(path, state, options, head, bool(getattr(criterion, "regression_target", False)))


def read_trained(name_or_path: str, data: Path | None) -> TrainedModel:
    """Read a model of this project, its dictionary, its tokenizer and its labels.

    Args:
        name_or_path: see `read_model`.
        data: folder with the dictionaries and the tokenizer that it was trained with; by default
            `checkpoints.released_folder.training_data`.

    Raises:
        UserError, ValueError: see `read_model`; or a file is missing, or the model was trained with other dictionaries.
    """
    model = read_model(name_or_path)
    folder = data or training_data(model.path)
    dict_txt, tokenizer = find_vocabulary(folder)
    check_dictionaries(model, folder)
    labels = () if model.head is None else _labels(model, folder / "label" / NAME)
    inputs = TaskInputs() if model.head is None else known_inputs(model.path, folder)
    return TrainedModel(**vars(model), dict_txt=dict_txt, tokenizer=tokenizer, labels=labels, inputs=inputs)


def check_dictionaries(model: CheckpointModel, data: Path) -> None:
    """Raise unless the dictionaries in a folder of data are those that a model was trained with.

    Raises:
        UserError: see `checkpoints.dictionaries.check_tokens` and `check_classes`.
    """
    if (dict_txt := find_dictionary(data)) is not None:
        check_tokens(model.path, model.vocabulary, True, dict_txt)
    if model.head is not None and not model.regression and (labels := data / "label" / NAME).is_file():
        check_classes(model.path, model.outputs, labels)


def _options(path: Path, state: Mapping[str, Any]) -> Namespace:
    """The options of the model, with those that can be left out from its weights."""
    options = Namespace(**stored_options(state, "model"))
    signature = state["model"].get(f"{ENCODER}layers.0.self_attn.signature")
    if signature is None:
        name = getattr(options, "_name", None) or getattr(options, "arch", None) or "model without a name"
        raise UserError(
            f"{path}: is a {name}; expected a Linformer of this project (`linformer convert` makes one of a RoBERTa)"
        )
    fill_defaults(options)
    options.encoder_layers = 1 + max(int(found[1]) for found in map(_LAYER.match, state["model"]) if found)
    try:
        options.max_positions = len(_weight(state["model"], POSITIONS)) - UNUSED_POSITIONS
        _check_signatures(state["model"], options)
    except ValueError as error:
        raise UserError(f"{path}: does not fit its own options: {error}") from None
    return options


def _check_signatures(weights: Mapping[str, Tensor], options: Namespace) -> None:
    """Raise ValueError where a layer is missing or was trained with other options of the attention."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that k is n
        settings = attention_settings(options)
    for layer in range(settings.num_layers):
        name = f"{ENCODER}layers.{layer}.self_attn"
        check_signature(_weight(weights, f"{name}.signature"), signature_of(settings, layer), name)


def _weight(weights: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise ValueError(f"it has no {name}")
    return weights[name]


def _head(path: Path, weights: Mapping[str, Tensor], criterion: Any) -> str | None:
    """The only classification head, or of several the one that the criterion trained; none for masked tokens."""
    if getattr(criterion, "_name", None) == "masked_lm":
        return None
    trained = str(getattr(criterion, "classification_head_name", ""))
    if found := next(filter(None, map(_NORMALIZED.fullmatch, weights)), None):
        raise UserError(
            f"{path}: the classification head {found[1]} was trained with spectral_norm_classification_head, and "
            "cannot be loaded; finetune the model without it"
        )
    heads = [found[1] for found in map(_HEAD.fullmatch, weights) if found]
    if len(heads) > 1 and trained not in heads:
        raise UserError(
            f"{path}: has several classification heads ({', '.join(heads)}), and none that it was trained by"
        )
    return trained if trained in heads else next(iter(heads), None)


def find_vocabulary(folder: Path) -> tuple[Path, dict[str, str]]:
    """Find the dictionary of the input and the tokenizer in a folder of data or of a model.

    Returns:
        the path of dict.txt, and what `files.tokenizers.find_tokenizer` returns.

    Raises:
        UserError: one of them is missing.
    """
    dict_txt = find_dictionary(folder)
    try:
        tokenizer = find_tokenizer([folder, folder / "input0"])
    except FileNotFoundError as error:
        raise UserError(f"{error}; give the data folder that the model was trained on with --data") from None
    if dict_txt is None:
        raise UserError(f"{folder}: has no {NAME}; give the data folder that the model was trained on with --data")
    return dict_txt, tokenizer


def _labels(model: CheckpointModel, path: Path) -> tuple[str, ...]:
    """The names of the classes; numbered ones where nothing names them."""
    if model.regression or not path.is_file():
        return tuple(f"LABEL_{number}" for number in range(model.outputs))
    return tuple(read_labels(path))
