"""The warning of a finetuning that answers every example alike."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.logging import metrics

from linformer_fairseq.patches import not_learning, replace
from linformer_fairseq.tasks import SoftSentencePredictionConfig, SoftSentencePredictionCriterion

LABELS = [0] * 60 + [1] * 40
ENTROPY = -(0.6 * math.log2(0.6) + 0.4 * math.log2(0.4))
SAID = "the model has not learned the task so far"


@pytest.fixture
def validated(caplog: pytest.LogCaptureFixture) -> Callable[..., bool]:
    """``validated(loss)``: whether a validation at that training loss warns; `caplog` has the words."""

    def validate(
        loss: float | None,
        updates: int = 20,
        regression: bool = False,
        valid: float | None = 0.5,
        labels: Sequence[int] = LABELS,
        soft: bool = False,
        accuracy: float | None = 60.0,
    ) -> bool:
        task = SimpleNamespace(
            cfg=SimpleNamespace(num_classes=len(set(labels)), data="task"),
            label_dictionary=None,
            dataset={"part1": [{"target": label} for label in labels]}.__getitem__,
        )
        criterion: SentencePredictionCriterion
        if soft:
            criterion = SoftSentencePredictionCriterion(SoftSentencePredictionConfig(), task)
        else:
            criterion = SentencePredictionCriterion(SentencePredictionConfig(regression_target=regression), task)
        trainer = SimpleNamespace(
            get_criterion=lambda: criterion, get_num_updates=lambda: updates, is_data_parallel_master=True
        )
        cfg = SimpleNamespace(
            lr_scheduler=SimpleNamespace(warmup_updates=10), dataset=SimpleNamespace(train_subset="part1")
        )
        program: Any = SimpleNamespace(validate_and_save=lambda *_: ([valid], False))
        for _, name, make in not_learning.REPLACED:
            replace(program, name, make)
        caplog.clear()
        metrics.reset()
        with caplog.at_level(logging.WARNING), metrics.aggregate("train"):
            metrics.log_scalar("loss", loss)  # an average over nothing is None
            if accuracy is not None:  # fairseq logs it if the criterion counts right answers
                metrics.log_scalar("accuracy", accuracy)
            assert program.validate_and_save(cfg, trainer, task, None) == ([valid], False)
        return SAID in caplog.text

    return validate


def test_a_loss_as_high_as_that_of_guessing_is_said(validated: Callable[..., bool]) -> None:
    assert validated(ENTROPY) and validated(1.0)
    assert not validated(ENTROPY * 0.95)


def test_with_soft_labels_the_errors_are_compared(
    validated: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    """The loss of one who knows the soft labels is their entropy, which may be as high as that of guessing."""
    assert validated(0.1, soft=True, accuracy=60.0) and "40.0 % of the answers" in caplog.text
    assert validated(0.1, soft=True, accuracy=60.5)
    assert not validated(1.0, soft=True, accuracy=61.0)
    assert validated(0.1, soft=True, accuracy=80.0, labels=[0] * 80 + [1] * 20)
    assert not validated(0.1, soft=True, accuracy=None)
    assert not validated(0.1, soft=True, labels=[0] * 9) and "one class" in caplog.text


def test_one_class_is_said_and_no_loss(validated: Callable[..., bool], caplog: pytest.LogCaptureFixture) -> None:
    assert not validated(0.0, labels=[0] * 9)
    assert "one class" in caplog.text and "0.000" not in caplog.text


def test_nothing_is_said_where_it_means_nothing(validated: Callable[..., bool]) -> None:
    assert not validated(1.0, updates=10), "in the warm-up"
    assert not validated(1.0, regression=True)
    assert not validated(1.0, valid=None), "nothing was validated"
    assert not validated(None), "the epoch has no update so far"


@pytest.mark.slow
def test_a_finetuning_on_labels_that_nothing_tells_warns(
    train: Callable[..., str], finetuning_settings: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**finetuning_settings, "optimization.max_update": 20, "optimization.lr": [1e-7]}
    assert SAID in train("fairseq-train", settings, tmp_path)
