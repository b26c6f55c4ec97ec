"""The metrics of a validation, of which ``checkpoint.best_checkpoint_metric`` is one."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig

from linformer_fairseq.files.errors import UserError, nearest
from linformer_fairseq.tasks import SOFT_SENTENCE_PREDICTION

_OF_CLASSES = {
    "": ("accuracy", "loss", "nll_loss"),
    "report_mcc": ("mcc",),
    "report_acc_and_f1": ("acc_and_f1", "f1"),
    "report_pearson_and_spearman": ("pearson", "pearson_and_spearman", "spearman"),
}
_OF_CRITERIA: dict[str, dict[str, tuple[str, ...]]] = {
    "masked_lm": {"": ("loss", "ppl")},
    "sentence_prediction": _OF_CLASSES,
    SOFT_SENTENCE_PREDICTION: _OF_CLASSES,
}
"""Of each criterion, those that it always has, and those that an option of it adds."""

_LOSSES = ("loss", "nll_loss", "ppl")


def check_reports(criterion: DictConfig, labels: Sequence[str]) -> None:
    """Raise for scores of a finetuning that fairseq cannot compute, which it notices at the first validation.

    Args:
        criterion: its name and options; of a plugin's, nothing is known.
        labels: the names of the classes.

    Raises:
        UserError: fairseq takes the names for numbers, and some are none; or F1, and there are not two classes.
    """
    if _OF_CRITERIA.get(criterion._name) is not _OF_CLASSES:
        return
    wanted = [option for option in _OF_CLASSES if option and criterion.get(option)]
    words = [label for label in labels if not _is_number(label)]
    if wanted and words:
        raise UserError(
            f"criterion.{wanted[0]}=true: fairseq needs classes named by whole numbers, and one is {words[0]!r}; leave "
            "it out, or prepare the task with numbers"
        )
    if "report_acc_and_f1" in wanted and (len(labels) != 2 or "1" not in labels):
        raise UserError(
            f"criterion.report_acc_and_f1=true: F1 is that of class 1 of two, and there are {', '.join(labels)}; leave "
            "it out"
        )


def _is_number(label: str) -> bool:
    try:
        int(label)
    except ValueError:
        return False
    return True


def check_metric(config: DictConfig) -> None:
    """Raise unless fairseq will find the metric that the best checkpoint is chosen by, at the first validation.

    Args:
        config: from `options.with_defaults`. What a plugin's criterion has is not known.

    Raises:
        UserError: there is no such metric, or its best value is at the other end; the message has what there is.
    """
    criterion, wanted = config.criterion, config.checkpoint.best_checkpoint_metric
    groups = _OF_CRITERIA.get(criterion._name, {})
    maximize = config.checkpoint.maximize_best_checkpoint_metric
    there = [name for option, names in groups.items() if not option or criterion.get(option) for name in names]
    if groups and wanted not in there:
        hint = nearest(wanted, there) or f"; there are: {', '.join(there)}"
        raise UserError(f"checkpoint.best_checkpoint_metric={wanted}: no metric of {criterion._name}{hint}")
    if groups and maximize == (wanted in _LOSSES):  # the best checkpoint would be the worst one
        right = "lowest" if wanted in _LOSSES else "highest"
        raise UserError(
            f"checkpoint.best_checkpoint_metric={wanted}: the {right} is the best one; set "
            f"checkpoint.maximize_best_checkpoint_metric={str(not maximize).lower()}, too"
        )
