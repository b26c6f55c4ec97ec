"""Loads the model of `linformer predict`, `embed`, `fill-mask` and `demo`."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import torch

from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.released_folder import existing_weights, known_inputs, training_data
from linformer_fairseq.cli.devices import device_of
from linformer_fairseq.evaluation import load_classifier, read_finetuned
from linformer_fairseq.files.dictionary import find_dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.files.weight_names import HEADS
from linformer_fairseq.models import LinformerHubInterface, LinformerRobertaModel, hub_interface, quantize


def load_finetuned(arguments: argparse.Namespace) -> tuple[LinformerHubInterface, str]:
    """A finetuned classifier, and the name of its head.

    Raises:
        UserError: see `read_finetuned` and `load_classifier`; or there is no tokenizer.
    """
    weights, data = find_model(arguments)
    device = _device(arguments)
    try:
        # the checkpoint before the data: that it has no classification head says more than that the data have no labels
        found = load_classifier(
            read_finetuned(weights), read_task(data), device, arguments.bf16, arguments.compile_encoder
        )
        folders = [data, data / "input0", weights.parent]
        hub = hub_interface(found.model, found.task, folders, known_inputs(weights, data))
        return _prepared(hub, arguments, device), found.head
    except (FileNotFoundError, ValueError) as error:
        raise UserError(str(error)) from error


def load_encoder(arguments: argparse.Namespace) -> LinformerHubInterface:
    """A pretrained or finetuned model.

    Raises:
        UserError: the dictionary or tokenizer is missing, or the weights do not fit them.
    """
    weights, data = find_model(arguments)
    device = _device(arguments)
    overrides: dict[str, Any] = (
        {"compile_encoder": True} if arguments.compile_encoder else {}
    )  # a RoBERTa has no such option
    try:
        hub = LinformerRobertaModel.from_pretrained(
            weights.parent.absolute(), weights.name, data.absolute(), **overrides
        )
    except FileNotFoundError as error:
        raise UserError(str(error)) from error
    except ValueError as error:  # CheckpointError among them; weights may not fit the dictionary
        raise UserError(f"{error} (with the dictionary in {data})") from error
    return _prepared(hub, arguments, device)


def load_either(arguments: argparse.Namespace) -> tuple[LinformerHubInterface, str | None]:
    """A finetuned classifier and the name of its head, or a pretrained model and None.

    Raises:
        UserError: see `load_finetuned` and `load_encoder`.
    """
    weights, _ = find_model(arguments)
    if any(name.startswith(HEADS) for name in read_checkpoint(weights)["model"]):
        return load_finetuned(arguments)
    return load_encoder(arguments), None


def _device(arguments: argparse.Namespace) -> torch.device:
    """The device that was asked for, if the precision can be had there; before the model is read."""
    device = device_of(arguments.device, arguments.bf16 and not arguments.int8)
    if arguments.int8 and (device.type != "cpu" or arguments.bf16 or arguments.compile_encoder):
        raise UserError("--int8: needs --device cpu, and neither --bf16 nor --compile-encoder")
    return device


def _prepared(hub: LinformerHubInterface, arguments: argparse.Namespace, device: torch.device) -> LinformerHubInterface:
    """The model with the precision and on the device that were asked for."""
    hub.model.bfloat16() if arguments.bf16 else hub.model.float()
    if arguments.int8:
        try:
            quantize(hub.model)
        except ValueError as error:
            raise UserError(f"{arguments.checkpoint}: --int8: {error}") from error
    return hub.eval().to(device)


def find_model(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The checkpoint, and the folder with the dictionary and the tokenizer that it was trained with.

    Raises:
        UserError: one of them is not there.
    """
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    weights = existing_weights(arguments.checkpoint)
    data = arguments.data or training_data(weights)
    if find_dictionary(data) is None:
        raise UserError(f"{data}: no dict.txt there; name the data folder that {weights} was trained on: --data DIR")
    return weights, data
