"""The loss of soft labels: its value, whose soft labels it takes, and validation without them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data.iterators import EpochBatchIterator
from torch import Tensor, nn

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.tasks import SoftSentencePredictionConfig
from tests.tasks.conftest import TRAIN, MakeTask


class Classifier(nn.Module):
    """Logits of a text: the mean of a vector of each token."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.classification_heads = {"head": None}
        torch.manual_seed(1)
        self.vectors = nn.Embedding(100, classes)

    def forward(self, src_tokens: Tensor, **_: Any) -> tuple[Tensor, None]:
        return self.vectors(src_tokens).mean(dim=1), None

    def get_targets(self, sample: dict[str, Any], _: Any) -> Tensor:
        targets: Tensor = sample["target"]
        return targets


@pytest.fixture
def soft(mixed: Path, tmp_path: Path) -> Path:
    """The task with soft labels that are all different."""
    folder = Path(shutil.copytree(mixed, tmp_path / "soft"))
    positive = np.linspace(0, 1, TRAIN, dtype=np.float32)
    (folder / "soft_labels").mkdir()
    np.save(folder / "soft_labels" / "train.npy", np.stack([1 - positive, positive], axis=1))
    return folder


def criterion(task: Any, name: str = "soft_sentence_prediction", **options: Any) -> Any:
    cfg = SoftSentencePredictionConfig(classification_head_name="head", **options)
    return CRITERION_REGISTRY[name](cfg, task)


def loss(criterion: Any, batch: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
    found: tuple[Tensor, int, dict[str, Any]] = criterion(Classifier(), batch)
    return found


def first_batch(task: Any, iterator: Callable[..., EpochBatchIterator], split: str = "train") -> dict[str, Any]:
    batch: dict[str, Any] = next(iterator(task, split).next_epoch_itr(shuffle=True))
    return batch


@pytest.mark.parametrize("name", ["sentence_prediction", "bucketed_sentence_prediction"])
@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_the_loss_is_the_cross_entropy_to_the_mean_of_both(
    make_task: MakeTask, iterator: Callable[..., EpochBatchIterator], soft: Path, name: str, weight: float
) -> None:
    task = make_task(name, data=str(soft))
    batch = first_batch(task, iterator)
    ids, labels = batch["id"].view(-1), batch["target"].view(-1)
    assert ids.tolist() != sorted(ids.tolist())
    found, examples, logged = loss(criterion(task, label_weight=weight).train(), batch)
    logits, _ = Classifier()(**batch["net_input"])
    expected = 0.0
    for number, label, scores in zip(ids.tolist(), labels.tolist(), logits.log_softmax(1).tolist(), strict=True):
        positive = weight * label + (1 - weight) * number / (TRAIN - 1)
        expected -= (1 - positive) * scores[0] + positive * scores[1]
    assert found.item() == pytest.approx(expected, rel=1e-5) == pytest.approx(logged["loss"].item(), rel=1e-5)
    assert examples == len(ids)


def test_with_the_labels_alone_it_is_that_of_fairseq(
    make_task: MakeTask, iterator: Callable[..., EpochBatchIterator], soft: Path
) -> None:
    task = make_task(data=str(soft))
    batch = first_batch(task, iterator)
    ours, examples, logged = loss(criterion(task, label_weight=1.0).train(), batch)
    theirs, expected, theirs_logged = loss(criterion(task, "sentence_prediction").train(), batch)
    torch.testing.assert_close(ours, theirs)
    assert examples == expected and logged.keys() == theirs_logged.keys()
    for name in logged:
        assert float(logged[name]) == pytest.approx(float(theirs_logged[name])), name


def test_validation_is_that_of_fairseq_and_needs_no_soft_labels(
    make_task: MakeTask, iterator: Callable[..., EpochBatchIterator]
) -> None:
    task = make_task()
    batch = first_batch(task, iterator, "valid")
    ours, theirs = (
        loss(criterion(task, name).eval(), batch) for name in ("soft_sentence_prediction", "sentence_prediction")
    )
    torch.testing.assert_close(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]
    with pytest.raises(UserError, match=r"soft_labels/train.npy: no such file"):
        loss(criterion(task).train(), batch)


def test_other_examples_than_those_of_train_are_refused(
    make_task: MakeTask, iterator: Callable[..., EpochBatchIterator], soft: Path
) -> None:
    task = make_task(data=str(soft))
    batch = first_batch(task, iterator, "valid")
    del task.datasets["train"]  # as with --train-subset valid
    with pytest.raises(UserError, match="soft labels are those of the 3,001 examples of train; train on these"):
        loss(criterion(task).train(), batch)


def test_a_model_of_other_classes_is_refused(
    make_task: MakeTask, iterator: Callable[..., EpochBatchIterator], soft: Path
) -> None:
    task = make_task(data=str(soft))
    with pytest.raises(UserError, match="num_classes=3: .* soft labels of 2 classes"):
        criterion(task).train()(Classifier(3), first_batch(task, iterator))


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_a_weight_that_is_none_is_refused(make_task: MakeTask, weight: float) -> None:
    with pytest.raises(ValueError, match=f"label_weight={weight}: expected 0 to 1"):
        criterion(make_task(), label_weight=weight)


def test_numbers_have_no_soft_labels(make_task: MakeTask) -> None:
    with pytest.raises(ValueError, match="regression_target"):
        criterion(make_task(), regression_target=True)
