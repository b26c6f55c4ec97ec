"""The metric that the best checkpoint is chosen by exists."""

from __future__ import annotations

from typing import Any

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.logging import metrics
from omegaconf import OmegaConf

import linformer_fairseq.tasks  # noqa: F401 (registers our criterion)
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.metrics import check_metric, check_reports

CLASSES = ("sentence_prediction", "soft_sentence_prediction")
REPORTS = ("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman")


def check(criterion: str, metric: str, maximize: bool | None = None, **options: bool) -> None:
    if maximize is None:
        maximize = metric not in ("loss", "nll_loss", "ppl")
    checkpoint = {"best_checkpoint_metric": metric, "maximize_best_checkpoint_metric": maximize}
    check_metric(OmegaConf.create({"criterion": {"_name": criterion, **options}, "checkpoint": checkpoint}))


@pytest.mark.parametrize(
    ("criterion", "reported"),
    [("masked_lm", ()), *((name, reported) for name in CLASSES for reported in ((), *((one,) for one in REPORTS)))],
)
def test_they_are_those_that_fairseq_computes(criterion: str, reported: tuple[str, ...]) -> None:
    log: dict[str, Any] = {"loss": 3.0, "ntokens": 12, "nsentences": 4, "sample_size": 4}
    if criterion in CLASSES:
        log |= {"ncorrect": 2, "pred": [0, 1, 1, 0], "targ": [0, 1, 0, 0], **dict.fromkeys(reported, True)}
    with metrics.aggregate(new_root=True) as found:
        CRITERION_REGISTRY[criterion].reduce_metrics([log])
    for name in set(found) - {"pred", "targ"}:
        check(criterion, name, **dict.fromkeys(reported, True))
    with pytest.raises(UserError) as refused:
        check(criterion, "???????", **dict.fromkeys(reported, True))
    assert set(str(refused.value).split("there are: ")[1].split(", ")) == set(found) - {"pred", "targ"}


def test_one_that_needs_an_option_and_one_of_a_plugin() -> None:
    with pytest.raises(UserError, match="^checkpoint.best_checkpoint_metric=f1: "):
        check("sentence_prediction", "f1")
    check("of_a_plugin", "anything")


@pytest.mark.parametrize(
    ("criterion", "metric", "maximize"),
    [("masked_lm", "ppl", True), ("sentence_prediction", "loss", True), ("sentence_prediction", "accuracy", False)],
)
def test_the_best_value_is_not_the_worst_one(criterion: str, metric: str, maximize: bool) -> None:
    with pytest.raises(UserError, match=f"{metric}: .*maximize_best_checkpoint_metric={str(not maximize).lower()}"):
        check(criterion, metric, maximize)
    check(criterion, metric, not maximize)


@pytest.mark.parametrize(
    ("option", "labels", "message"),
    [
        ("report_mcc", ("neg", "pos"), "criterion.report_mcc=true: .*'neg'"),
        ("report_acc_and_f1", ("1", "entailment"), "criterion.report_acc_and_f1=true: .*'entailment'"),
        ("report_acc_and_f1", ("0", "1", "2"), "criterion.report_acc_and_f1=true: .*0, 1, 2"),
        ("report_acc_and_f1", ("0", "2"), "criterion.report_acc_and_f1=true: .*0, 2"),
    ],
)
def test_scores_that_fairseq_cannot_compute_are_refused(option: str, labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        check_reports(OmegaConf.create({"_name": "sentence_prediction", option: True}), labels)
    with pytest.raises(UserError):
        check_reports(OmegaConf.create({"_name": "soft_sentence_prediction", option: True}), labels)
    check_reports(OmegaConf.create({"_name": "sentence_prediction", option: False}), labels)
    check_reports(OmegaConf.create({"_name": "of_a_plugin", option: True}), labels)


def test_scores_that_fairseq_computes_are_not_refused() -> None:
    check_reports(OmegaConf.create({"_name": "sentence_prediction", "report_mcc": True}), ("0", "1", "2"))
    check_reports(OmegaConf.create({"_name": "sentence_prediction", "report_acc_and_f1": True}), ("0", "1"))
