"""Reads a checkpoint of fairseq's RoBERTa."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel

from linformer_fairseq.checkpoints.dictionaries import check_same
from linformer_fairseq.checkpoints.released_folder import tokenizer_files
from linformer_fairseq.conversion.source import Source
from linformer_fairseq.conversion.task import masked_lm
from linformer_fairseq.files import dictionary as dict_txt
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.weight_names import HEADS, OUTPUT, OUTPUT_BIAS, POSITIONS, TOKENS, UNUSED_POSITIONS
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.config import DEFAULTS, OPTIONS_OF_LINFORMER, Role, with_role
from linformer_fairseq.models.stored import read_roberta

_HEAD_OPTIONS = {"load_checkpoint_heads", "spectral_norm_classification_head"}
_OPTIONS = set(DEFAULTS) - {*OPTIONS_OF_LINFORMER, "max_positions", *_HEAD_OPTIONS, *with_role(Role.EXECUTION)}


def read_fairseq(checkpoint: Path, data: Path, out: Path) -> Source:
    """Read a checkpoint, and copy its dictionary and tokenizer.

    Args:
        checkpoint: of a pretraining or a finetuning; the heads of the latter are left out.
        data: folder with ``dict.txt``, or ``input0/dict.txt``, and the tokenizer's files.
        out: existing folder for the copies.

    Raises:
        UserError: a file is missing or damaged, the model is no RoBERTa, or it was trained with another dictionary; the
            message names it.
        ValueError: the file is no checkpoint (CheckpointError), or there is no tokenizer.
    """
    state = read_roberta(checkpoint)
    found = dict_txt.find_dictionary(data)
    if found is None:
        raise UserError(
            f"{data / dict_txt.NAME}: no such file; --data DIR names the folder with the dictionary and the tokenizer"
        )
    check_same(checkpoint, found)
    shutil.copyfile(found, out / dict_txt.NAME)
    for path in tokenizer_files(data):
        shutil.copyfile(path, out / path.name)
    heads = sorted({key.split(".")[1] for key in state["model"] if key.startswith(HEADS)})
    weights = {key: tensor for key, tensor in state["model"].items() if not key.startswith(HEADS)}
    model = _build(checkpoint, state["cfg"].model, weights, Dictionary.load(str(found)))
    weights = {key: tensor.float() for key, tensor in model.state_dict().items() if tensor.is_floating_point()}
    weights = {key: tensor for key, tensor in weights.items() if key.rpartition(".")[2] != "version"}
    # fairseq's RoBERTa has rows for the symbols that a dictionary is padded with; ours has not
    real = len(dict_txt.without_padding(model.encoder.dictionary.symbols))
    for key in (TOKENS, OUTPUT, OUTPUT_BIAS):
        weights[key] = weights[key][:real]
    options = {name: getattr(model.args, name, None) for name in sorted(_OPTIONS)}
    return Source(
        "fairseq RoBERTa",
        checkpoint,
        {name: value for name, value in options.items() if value is not None},
        weights,
        tuple(f"the classification head {head} is left out" for head in heads),
    )


def _build(checkpoint: Path, options: Any, weights: dict[str, torch.Tensor], dictionary: Dictionary) -> RobertaModel:
    """fairseq's own model: it knows the names and shapes that weights had in its earlier versions."""
    name = str(getattr(options, "_name", None) or getattr(options, "arch", None))
    model_class = models.ARCH_MODEL_REGISTRY.get(name) or models.MODEL_REGISTRY[name]  # `read_roberta` has found one
    if issubclass(model_class, LinformerRobertaModel) or any("compress_" in key for key in weights):
        raise UserError(f"{checkpoint}: its model is {name}, a Linformer already; expected a RoBERTa")
    positions = [tensor for key, tensor in weights.items() if key.endswith(POSITIONS.partition(".")[2])]
    if not positions:
        raise UserError(f"{checkpoint}: it has no learned position embeddings, which a RoBERTa has")
    task = masked_lm(dictionary, len(positions[0]) - UNUSED_POSITIONS)
    model = models.build_model(options, task)
    try:
        model.load_state_dict(weights, strict=True, model_cfg=options)
    except (RuntimeError, KeyError) as error:
        raise UserError(
            f"{checkpoint}: its weights do not fit its options or the dictionary: {' '.join(str(error).split())[:300]}"
        ) from error
    assert isinstance(model, RobertaModel)
    return model
