"""Loads a finetuned checkpoint for the data that it is to classify."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from omegaconf import open_dict
from torch import nn

from linformer_fairseq import models  # noqa: F401  registers them, for fairseq to build the checkpoint's
from linformer_fairseq.checkpoints.dictionaries import check_classes, check_tokens
from linformer_fairseq.files.dictionary import NAME
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_data import TaskData
from linformer_fairseq.files.weight_names import TOKENS, head_output
from linformer_fairseq.models.stored import read_roberta
from linformer_fairseq.tasks import SENTENCE_PREDICTION


@dataclass(frozen=True)
class Finetuned:
    """What is read of the checkpoint of a classifier."""

    path: Path
    state: dict[str, Any]
    """As fairseq loads it."""
    head: str
    """Name of the classification head."""

    @property
    def classes(self) -> int:
        """The number of classes of the head."""
        return int(self.state["model"][head_output(self.head)].size(0))


@dataclass(frozen=True)
class Classifier:
    """A model in evaluation mode, and the task that reads its data."""

    model: nn.Module
    task: Any
    head: str
    device: torch.device
    max_positions: int
    """Maximum input length in tokens, special ones included."""


def read_finetuned(checkpoint: Path) -> Finetuned:
    """Read a checkpoint of sentence_prediction or bucketed_sentence_prediction.

    Raises:
        UserError: it has no classification head, or one that predicts numbers.
        ValueError: the file is not a checkpoint, or is damaged.
    """
    state = read_roberta(checkpoint)
    cfg = state["cfg"]
    head = str(getattr(cfg.criterion, "classification_head_name", ""))
    if cfg.task._name not in SENTENCE_PREDICTION or head_output(head) not in state["model"]:
        raise UserError(
            f"{checkpoint}: has no classification head (its task is {cfg.task._name}); finetune it first (`linformer "
            "finetune`, or fairseq-train with --task and --criterion sentence_prediction). As it is, it works with "
            "`linformer fill-mask` and `linformer embed`"
        )
    if getattr(cfg.criterion, "regression_target", False):
        raise UserError(f"{checkpoint}: was trained to predict numbers (regression_target), not classes")
    return Finetuned(checkpoint, state, head)


def load_classifier(
    found: Finetuned, data: TaskData, device: torch.device, bf16: bool = False, compile_encoder: bool = False
) -> Classifier:
    """Make the model of a checkpoint.

    Args:
        found: the checkpoint.
        data: the task to classify.
        device: the model's device.
        bf16: compute in bfloat16; otherwise in fp32, whatever the training's precision was.
        compile_encoder: run its layers through torch.compile, whether or not training did.

    Raises:
        UserError: the head is for other data, the weights do not fit the checkpoint's options, or it is not one of our
            encoders to compile; the message says which.
    """
    checkpoint, state = found.path, found.state
    cfg = state["cfg"]
    check_classes(checkpoint, found.classes, data.folder / "label" / NAME)
    rows = state["model"][TOKENS].size(0)
    check_tokens(checkpoint, rows, "sharing" in cfg.model, data.folder / "input0" / NAME)
    with open_dict(cfg):
        cfg.task.data = str(data.folder)
        if "sharing" in cfg.model:
            cfg.model.compile_encoder = compile_encoder
        elif compile_encoder:
            raise UserError(f"{checkpoint}: is a {cfg.model._name}; only a Linformer's encoder can be compiled")
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model, from_checkpoint=True)
    try:
        model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{checkpoint}: does not fit its own options: {' '.join(str(error).split())}") from error
    limit = min(int(task.max_positions()), int(model.max_positions()))
    model = model.bfloat16() if bf16 else model.float()
    return Classifier(model.eval().to(device), task, found.head, device, limit)
