"""Reading the log that fairseq writes with ``common.log_format=json common.log_file=FILE``.

One JSON object a line, its numbers as text, among other lines: every ``log_interval`` updates the training, at
validations ``valid_*``, at the end of an epoch ``train_*``. fairseq writes each line once more per epoch, and the
file is appended to: after an interrupted run was resumed, updates behind its last checkpoint are there twice. The
last line of an update counts, and where the log goes back, what stood behind is void.
"""

from __future__ import annotations

import json
import math
import statistics
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class TrainingLog:
    """What is known of a run from its log, by the number of updates done."""

    perplexity: dict[int, float] = field(default_factory=dict)
    """Validation perplexity of masked tokens (pretraining); inf or nan where training diverged."""
    accuracy: dict[int, float] = field(default_factory=dict)
    """Validation accuracy in percent, with the one decimal that fairseq writes (classification)."""
    f1: dict[int, float] = field(default_factory=dict)
    """Validation F1 in percent, where the criterion reports it."""
    speed: dict[int, float] = field(default_factory=dict)
    """Tokens per second of the interval that ends at this update."""
    tokens_per_update: dict[int, float] = field(default_factory=dict)
    """Tokens of one update over all processes, without padding: the mean of the interval that ends at this update."""
    updates: int = 0
    """Updates done by the last line that says so."""

    @property
    def tokens_per_second(self) -> float | None:
        """Median over the intervals: those that hold a validation or the start are slower. None without one."""
        return statistics.median(self.speed.values()) if self.speed else None

    @property
    def tokens(self) -> int | None:
        """Tokens that training has seen; None where the log has no training line."""
        if not self.tokens_per_update:
            return None
        total, before, mean = 0.0, 0, 0.0
        for update, mean in sorted(self.tokens_per_update.items()):
            total += mean * (update - before)
            before = update
        return round(total + mean * max(0, self.updates - before))

    def _go_to(self, update: int) -> None:
        if update < self.updates:
            for values in (self.perplexity, self.accuracy, self.f1, self.speed, self.tokens_per_update):
                for late in [key for key in values if key >= update]:
                    del values[late]
        self.updates = update


def read_log(path: Path) -> TrainingLog:
    """Read ``path``; lines that cannot be read, such as a last one that was cut off, are passed over.

    Raises:
        OSError: the file cannot be read.
    """
    log = TrainingLog()
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("{"):
                with suppress(ValueError):
                    _add(log, json.loads(line))
    return log


def _add(log: TrainingLog, stats: dict[str, Any]) -> None:
    curves: dict[str, dict[int, float]]
    if "valid_num_updates" in stats:
        count = stats["valid_num_updates"]
        curves = {"valid_ppl": log.perplexity, "valid_accuracy": log.accuracy, "valid_f1": log.f1}
    elif "num_updates" in stats:
        count = stats["num_updates"]
        curves = {"wps": log.speed, "wpb": log.tokens_per_update}
    else:  # of an epoch; the intervals have said it already, but for the end of a run that fits no interval
        count = stats.get("train_num_updates")
        curves = {} if log.tokens_per_update else {"train_wpb": log.tokens_per_update}
    update = _number(count)
    if update is None or not math.isfinite(update):
        return
    log._go_to(int(update))
    for key, curve in curves.items():
        value = _number(stats.get(key))
        if value is not None:
            curve[int(update)] = value


def _number(value: Any) -> float | None:
    """fairseq writes numbers as text, "inf" and "nan" among them."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
