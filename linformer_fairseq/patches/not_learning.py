"""A finetuning that does not learn its task logs a warning.

What fairseq does: nothing; a run whose model predicts the same class for all examples ends normally, with an accuracy
that looks like a result.

The patch: at each validation after the warm-up, the mean training loss of the epoch is compared with the entropy of the
class frequencies, the loss of a model that knows nothing else (log2(classes) if all are equally frequent). If the loss
is not lower, or there is only one class, a warning is logged. A criterion that is derived from fairseq's, as that of
soft labels, has a loss that cannot be compared: its errors are compared with those of the most frequent class.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.logging import metrics

from linformer_fairseq.training.run_report import LOG

_LEARNED = 0.98
"""A loss below this fraction of the entropy, or errors below this fraction of those, are better than guessing."""
_EXAMPLES = 10_000
"""About as many labels are counted; at most twice as many."""


def entropy(labels: list[int]) -> float:
    """Return the entropy of the class frequencies in bits, the unit of fairseq's logged losses."""
    counts = Counter(labels).values()
    return sum(count / len(labels) * math.log2(len(labels) / count) for count in counts)


def errors_of_guessing(labels: list[int]) -> float:
    """Return the percentage of wrong answers if all are the most frequent class."""
    return 100 * (1 - Counter(labels).most_common(1)[0][1] / len(labels))


def _labels(dataset: Any) -> list[int]:
    step = max(1, len(dataset) // _EXAMPLES)
    return [int(dataset[index]["target"]) for index in range(0, len(dataset), step)]


def _look(cfg: Any, trainer: Any, task: Any) -> None:
    criterion = trainer.get_criterion()
    classifies = isinstance(criterion, SentencePredictionCriterion) and not criterion.regression_target
    if not classifies or trainer.get_num_updates() <= getattr(cfg.lr_scheduler, "warmup_updates", 0):
        return
    by_loss = type(criterion) is SentencePredictionCriterion
    loss, accuracy = (metrics.get_smoothed_values("train").get(name) for name in ("loss", "accuracy"))
    if (loss if by_loss else accuracy) is None:  # nothing is counted yet, as if an epoch's first gradient overflows
        return
    if by_loss and loss < _LEARNED * math.log2(task.cfg.num_classes) / 2:  # far below the entropy of usual frequencies
        return
    labels = _labels(task.dataset(cfg.dataset.train_subset))
    update = f"update {trainer.get_num_updates()}"
    if len(set(labels)) == 1:
        LOG.warning(f"{update}: all training examples are of one class, so that the accuracy means nothing")
        return
    if by_loss:
        found, guessing = loss, entropy(labels)
        compared = f"the training loss is {found:.3f}, and the entropy of the class frequencies is {guessing:.3f}"
    else:
        found, guessing = 100 - accuracy, errors_of_guessing(labels)
        compared = (
            f"{found:.1f} % of the answers in training are wrong, and {guessing:.1f} % would be if all were the most "
            "frequent class"
        )
    if found >= _LEARNED * guessing:
        LOG.warning(
            f"{update}: {compared}: the model has not learned the task so far. Another learning rate, more updates or "
            "a longer pretraining may help"
        )


def _looking(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(validate_and_save)
    def validate_save_and_look(cfg: Any, trainer: Any, task: Any, epoch_itr: Any, *rest: Any) -> Any:
        losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *rest)
        if losses[0] is not None and trainer.is_data_parallel_master:
            _look(cfg, trainer, task)
        return losses, should_stop

    return validate_save_and_look


REPLACED = (("fairseq_cli.train", "validate_and_save", _looking),)
