"""Makes a checkpoint of fairseq from a folder of transformers, without running the code in it."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tokenizers import Tokenizer
from torch import Tensor

from linformer_fairseq.checkpoints.dictionaries import check_tokens
from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.checkpoints.released_file import checkpoint_of
from linformer_fairseq.checkpoints.released_folder import CHECKPOINT, TRANSFORMERS_CONFIG, find_weights, refuse_graph
from linformer_fairseq.checkpoints.transformers_weights import read_weights
from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.exporting.trained import find_vocabulary
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.dictionary import BOS, EOS, SPECIAL, classes_of
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.shipped import WEIGHTS
from linformer_fairseq.files.task_inputs import read_inputs
from linformer_fairseq.files.tokenizers import files_of
from linformer_fairseq.files.weight_names import HEADS, LM_HEAD, OUTPUT, TOKENS, head_output
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.config import LinformerRobertaConfig
from linformer_fairseq.models.options import attention_settings, fill_defaults
from linformer_fairseq.models.stored import check_sizes

from . import names, options
from .tokenizer import fast_tokenizer

_HEAD = "sentence_classification_head"
"""fairseq's name of the head that sentence_prediction trains."""
_HEAD_WEIGHTS = frozenset(
    f"{HEADS}{_HEAD}.{name}" for name in ("dense.weight", "dense.bias", "out_proj.weight", "out_proj.bias")
)
_PROBLEMS = ("single_label_classification", "regression", None)
"""The values of ``problem_type`` that fairseq's sentence_prediction has; None where config.json has no such entry."""
_STANDARD_DEVIATION = 0.02
"""Of RoBERTa's initial weights."""


def import_folder(folder: Path, out: Path, data: Path | None = None) -> list[Path]:
    """Write a folder with a checkpoint of fairseq and its dictionaries and tokenizer, whole or not at all.

    A folder without a head for masked tokens, as a finetuning in transformers leaves it, gets one with RoBERTa's
    initial weights: fairseq's models have one always.

    Args:
        folder: as `export_folder` or ``save_pretrained`` writes it. Of its code nothing is run.
        out: the new folder, which must not exist.
        data: folder with dict.txt and the tokenizer; by default ``folder``.

    Returns:
        the files in ``out``.

    Raises:
        UserError: the folder is incomplete, or holds another model; the message says which file.
        ValueError: ``out`` exists.
        OSError: a file cannot be read or written.
    """
    with new_folder(out) as temporary:
        config = _config(folder / TRANSFORMERS_CONFIG)
        weights = read_weights(folder)
        dict_txt, tokenizer = find_vocabulary(data or folder)
        state = _state(folder, config, weights)
        check_tokens(folder / WEIGHTS, state["model"][TOKENS].size(0), True, dict_txt)
        _check_ids(folder / "tokenizer.json", tokenizer, dict_txt)
        write_checkpoint(state, temporary / CHECKPOINT)
        shutil.copyfile(dict_txt, temporary / dictionary.NAME)
        for path in files_of(tokenizer):
            shutil.copyfile(path, temporary / path.name)
        if "num_classes" in state["cfg"]["task"]:
            (temporary / "input0").mkdir()
            shutil.copyfile(dict_txt, temporary / "input0" / dictionary.NAME)
            classes = state["cfg"]["task"]["num_classes"]
            labels = _labels(folder / TRANSFORMERS_CONFIG, config, classes)
            dictionary.write(temporary / "label" / dictionary.NAME, ((label, 1) for label in labels))
            read_inputs(folder).write(temporary)  # not of ``data``, which may be those of another task
        _check_model(folder, temporary)
    return sorted(path for path in out.rglob("*") if path.is_file())


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        ours = Path(find_weights(str(path.parent))) != path.parent
        kind = " (if this is one of a run, or a released one, it needs no import)" if ours else ""
        raise UserError(f"{path}: no such file; expected a folder of a Linformer in transformers{kind}")
    config = read_object(path, "export or save the model again")
    if config.get("model_type") != options.MODEL_TYPE:
        refuse_graph(path.parent, str(path.parent))  # its config.json has no type
        raise UserError(
            f"{path}: model_type is {config.get('model_type')!r}, expected {options.MODEL_TYPE!r}; nothing else can be "
            "imported"
        )
    return config


def _state(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """What fairseq's trainer would save of the model."""
    renamed = names.to_fairseq(weights, _HEAD)
    embedding = renamed.get(TOKENS)
    if embedding is None or embedding.dim() != 2:
        raise UserError(f"{folder}: there is no embedding in its weights")
    # fairseq would put random weights in place of those that a head lacks.
    if (missing := _HEAD_WEIGHTS - renamed.keys()) and missing != _HEAD_WEIGHTS:
        lacking = min(missing).replace(f"{HEADS}{_HEAD}", "classifier")
        raise UserError(f"{folder}: its weights do not fit the model: there is a classifier, but no {lacking}")
    try:
        found = OmegaConf.merge(OmegaConf.structured(LinformerRobertaConfig), options.to_fairseq(config))
        model = Namespace(**{**OmegaConf.to_container(found, enum_to_str=True), "_name": MODEL})  # type: ignore[dict-item]
        fill_defaults(model)
        check_sizes(vars(model), renamed)
        attention_settings(model)
    except (ValueError, OmegaConfBaseException) as error:
        raise UserError(f"{folder / TRANSFORMERS_CONFIG}: {str(error).splitlines()[0]}") from None
    renamed[names.VERSION] = torch.tensor([names.VERSION_NUMBER])
    if not any(name.startswith(LM_HEAD) for name in renamed):
        renamed |= _initial_lm_head(embedding)
        renamed[OUTPUT] = embedding.clone()
    if not model.untie_weights_roberta:
        renamed[OUTPUT] = embedding
    task: dict[str, Any] = {"_name": "masked_lm", "data": ".", "tokens_per_sample": model.max_positions}
    criterion: dict[str, Any] = {"_name": "masked_lm"}
    outputs = renamed.get(head_output(_HEAD))
    if outputs is not None:
        if outputs.dim() != 2:
            raise UserError(f"{folder}: the classifier in its weights has {outputs.dim()} dimensions, expected 2")
        problem = config.get("problem_type")
        if problem not in _PROBLEMS:
            raise UserError(
                f"{folder / TRANSFORMERS_CONFIG}: problem_type is {str(problem)[:60]!r}, but in fairseq a text has one "
                "class, or a number; only single_label_classification and regression can be imported"
            )
        is_number = problem == "regression" or (problem is None and outputs.size(0) == 1)  # as in transformers
        task = {
            "_name": "sentence_prediction",
            "data": ".",
            "num_classes": outputs.size(0),
            "init_token": BOS,
            "separator_token": EOS,
            "max_positions": model.max_positions,
            "regression_target": is_number,
            "seed": 1,  # by default that of `common`, which this checkpoint does not have
        }
        criterion = {
            "_name": "sentence_prediction",
            "classification_head_name": _HEAD,
            "regression_target": is_number,
        }
    options_of_all = {"_name": None, "bpe": None, "model": vars(model), "task": task, "criterion": criterion}
    return checkpoint_of(options_of_all, renamed, updates=0)


def _initial_lm_head(embedding: Tensor) -> dict[str, Tensor]:
    symbols, width = embedding.shape
    head = {
        "dense.weight": embedding.new_empty(width, width).normal_(std=_STANDARD_DEVIATION),
        "dense.bias": embedding.new_zeros(width),
        "layer_norm.weight": embedding.new_ones(width),
        "layer_norm.bias": embedding.new_zeros(width),
        "bias": embedding.new_zeros(symbols),
    }
    return {f"{LM_HEAD}{name}": tensor for name, tensor in head.items()}


def _labels(path: Path, config: Mapping[str, Any], classes: int) -> Sequence[str]:
    """The labels as fairseq's dictionary will have them: of ``classes`` different ones."""
    named = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}  # two are transformers' default
    try:
        labels = [str(named[number]) for number in sorted(named, key=int)]
    except (TypeError, ValueError):
        raise UserError(f"{path}: id2label is {str(named)[:60]}; expected a label for each number") from None
    if wrong := next((label for label in labels if len(label.split()) != 1), None):
        raise UserError(f"{path}: the label {wrong!r} has a blank, which fairseq's dictionary cannot hold; rename it")
    if len(labels) != classes:
        raise UserError(f"{path}: id2label has {len(labels)} labels, but the classifier {classes} outputs")
    if wrong := next((label for label in labels if labels.count(label) > 1), None):
        raise UserError(f"{path}: id2label has the label {wrong!r} several times; rename one")
    if wrong := next((label for label in labels if label in SPECIAL or label not in classes_of([label])), None):
        raise UserError(f"{path}: the label {wrong!r} has a meaning in fairseq's dictionary; rename it")
    return labels


def _check_ids(tokenizer_json: Path, files: dict[str, str], dict_txt: Path) -> None:
    """Raise if the folder's tokenizer has other ids than a dictionary, of which there may be a copy elsewhere only."""
    if not tokenizer_json.is_file():
        return
    try:
        theirs = Tokenizer.from_file(str(tokenizer_json)).get_vocab()
    except Exception as error:  # the library's
        raise UserError(f"{tokenizer_json}: cannot be read: {error}") from None
    for symbol, number in fast_tokenizer(files, dict_txt).get_vocab().items():
        if (found := theirs.get(symbol)) != number:
            what = "does not have it" if found is None else f"gives it {found}"
            raise UserError(
                f"{dict_txt}: gives {symbol!r} the id {number}, but {tokenizer_json} {what}; expected the dictionary "
                "that the model was trained with"
            )


def _check_model(folder: Path, made: Path) -> None:
    """Raise unless the checkpoint that was made can be loaded."""
    try:
        LinformerRobertaModel.from_pretrained(made)
    except CheckpointError as error:
        raise UserError(f"{folder}: {str(error).removeprefix(f'{made / CHECKPOINT}: ')}") from None
    except OmegaConfBaseException as error:  # an interpolation in place of a value, which is followed only here
        raise UserError(f"{folder / TRANSFORMERS_CONFIG}: {str(error).splitlines()[0]}") from None
