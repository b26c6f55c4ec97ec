"""fairseq's criterion of sentence_prediction, with soft labels beside the labels.

A teacher's probabilities say more of an example than its label (Hinton et al. 2015, "Distilling the Knowledge in a
Neural Network", arXiv:1503.02531). Model, data and options are those of sentence_prediction.

No ``from __future__ import annotations`` here: fairseq reads the field types as objects.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from torch import Tensor
from torch.nn import functional

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_data import read_task

SOFT_SENTENCE_PREDICTION = "soft_sentence_prediction"


@dataclass
class SoftSentencePredictionConfig(SentencePredictionConfig):
    """Options of ``soft_sentence_prediction``: those of ``sentence_prediction``, and ``label_weight``."""

    label_weight: float = field(
        default=0.5,
        metadata={
            "help": "weight of an example's label, from 0 to 1; that of its soft label is the rest. 1: as "
            "sentence_prediction"
        },
    )


@register_criterion(SOFT_SENTENCE_PREDICTION, dataclass=SoftSentencePredictionConfig)
class SoftSentencePredictionCriterion(SentencePredictionCriterion):
    """Cross-entropy to the weighted mean of label and soft label in training; validation is sentence_prediction's.

    The soft labels are those of the data folder (``linformer data task --soft-labels``), of the split train.
    """

    def __init__(self, cfg: SoftSentencePredictionConfig, task: Any) -> None:
        """Make the criterion; the soft labels are read at the first update, so that validation does not need them.

        Raises:
            ValueError: ``label_weight`` is out of range, or the targets are numbers.
        """
        super().__init__(cfg, task)
        if not 0 <= cfg.label_weight <= 1:
            raise ValueError(f"label_weight={cfg.label_weight}: expected 0 to 1")
        if self.regression_target:
            raise ValueError("regression_target: soft labels are those of classes; use sentence_prediction")
        self._label_weight = cfg.label_weight
        self._data = Path(task.cfg.data)

    @cached_property
    def _soft_labels(self) -> Tensor:
        """(examples, classes)."""
        found = torch.from_numpy(read_task(self._data).soft_labels("train"))
        if len(self.task.datasets.get("train", ())) != len(found):  # fairseq adds train1 to train, if there is one
            raise UserError(
                f"{self._data}: soft labels are those of the {len(found):,} examples of train; train on these (with "
                "fairseq-train, --train-subset train), or use sentence_prediction"
            )
        return found

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss, the number of examples, and what is logged, as in sentence_prediction.

        Raises:
            UserError: the data folder has no soft labels, or they are not those of the examples and classes.
        """
        if not self.training:
            found: tuple[Tensor, int, dict[str, Any]] = super().forward(model, sample, reduce)
            return found
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.classification_head_name
        )
        labels = model.get_targets(sample, [logits]).view(-1)
        self._soft_labels = self._soft_labels.to(logits.device)  # copied once
        soft = self._soft_labels[sample["id"].view(-1)]
        if logits.size(1) != soft.size(1):
            raise UserError(f"num_classes={logits.size(1)}: {self._data} has soft labels of {soft.size(1)} classes")
        hard = functional.one_hot(labels, soft.size(1))
        targets = torch.lerp(soft, hard.to(soft), self._label_weight)
        loss = -(targets * functional.log_softmax(logits, dim=-1, dtype=torch.float32)).sum()
        return (
            loss,
            len(labels),
            {
                "loss": loss.data,
                "ntokens": sample["ntokens"],
                "nsentences": len(labels),
                "sample_size": len(labels),
                "ncorrect": (logits.argmax(dim=1) == labels).sum(),
            },
        )
