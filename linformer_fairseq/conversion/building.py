"""Puts the weights of a RoBERTa into a Linformer."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from linformer_fairseq.conversion.source import Source
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.weight_names import OUTPUT, POSITIONS, TOKENS, UNUSED_POSITIONS
from linformer_fairseq.models import LinformerRobertaModel

_PROJECTIONS = (".proj_k.", ".proj_v.", ".signature", ".version")


def tiled(positions: Tensor, max_positions: int) -> Tensor:
    """Position embeddings (2 + n, C) for another n: the first ones, or all of them again and again."""
    unused, rows = positions[:UNUSED_POSITIONS], positions[UNUSED_POSITIONS:]
    copies = -(-max_positions // len(rows))
    return torch.cat([unused, rows.repeat(copies, 1)[:max_positions]])


def build(source: Source, task: Any, options: Mapping[str, Any]) -> LinformerRobertaModel:
    """The model with the source's weights; E and F are as ``projection_init`` makes them.

    Args:
        source: the RoBERTa.
        task: fairseq's task, with the dictionary.
        options: those of the Linformer, ``max_positions`` among them.

    Returns:
        The model in evaluation mode.

    Raises:
        ValueError: options contradict each other, or the source's weights are not those of its options.
    """
    # RoBERTa's weights replace what attention_start would begin with
    args = Namespace(**{**source.options, **options, "attention_start": "random"})
    model = LinformerRobertaModel.build_model(args, task)
    own = model.state_dict()
    kept = {key: tensor for key, tensor in own.items() if any(part in f".{key}" for part in _PROJECTIONS)}
    given = {**source.weights, POSITIONS: tiled(source.weights[POSITIONS], model.max_positions())}
    missing, foreign = own.keys() - kept.keys() - given.keys(), given.keys() - own.keys()
    if missing or foreign:
        what = f"{min(missing)} is missing" if missing else f"{min(foreign)} has no place in a Linformer"
        raise UserError(f"{source.path}: its weights are not those of its options: {what}")
    for key, tensor in given.items():
        if tensor.shape != own[key].shape:
            raise UserError(
                f"{source.path}: its weights are not those of its options: {key} is {tuple(tensor.shape)}, expected "
                f"{tuple(own[key].shape)}"
            )
    if not source.options.get("untie_weights_roberta"):
        assert torch.equal(given[OUTPUT], given[TOKENS])
    model.load_state_dict({**kept, **given})
    model.eval()
    return model


def build_dense(source: Source, task: Any, max_positions: int) -> LinformerRobertaModel:
    """The source itself, for up to ``max_positions`` tokens: with k = n windows of one token, attention is dense.

    Raises:
        ValueError: as in `build`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that k is n
        options = {"max_positions": max_positions, "projected_dim": max_positions, "projection": "mean_pool"}
        return build(source, task, options)
