"""Reads the log that fairseq writes with ``common.log_format=json common.log_file=FILE``.

One JSON object per line, with numbers as text, among other lines: training statistics every ``log_interval`` updates,
``SPLIT_*`` at validations, such as ``valid_ppl``, and ``train_*`` at the end of an epoch. Of several splits of
``dataset.valid_subset``, the first is validated first, and the best checkpoint is chosen on it: only it is read.

Unless patched (`patches.log_file`), fairseq writes each line once more per epoch. It appends to the file: if a run is
resumed, updates after its last checkpoint occur twice. The last line of an update counts; if the number of updates
decreases, the values from there on are discarded.
"""

from __future__ import annotations

import math
import statistics
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linformer_fairseq.files.json_records import parse

_UPDATES = "_num_updates"


@dataclass
class TrainingLog:
    """Values from the log of a run, by number of updates."""

    perplexity: dict[int, float] = field(default_factory=dict)
    """Validation perplexity of masked tokens (pretraining); inf or nan if training diverged."""
    accuracy: dict[int, float] = field(default_factory=dict)
    """Validation accuracy in percent, with the one decimal that fairseq writes (classification)."""
    f1: dict[int, float] = field(default_factory=dict)
    """Validation F1 in percent, if the criterion reports it."""
    speed: dict[int, float] = field(default_factory=dict)
    """Tokens per second of the interval that ends at this update."""
    tokens_per_update: dict[int, float] = field(default_factory=dict)
    """Tokens of one update over all processes, without padding: the mean of the interval that ends at this update."""
    split: str | None = None
    """The split of the validations; None without any."""
    updates: int = 0
    """Number of updates in the last line that has one."""

    @property
    def tokens_per_second(self) -> float | None:
        """Median over the intervals: those with a validation or the start are slower. None without any."""
        return statistics.median(self.speed.values()) if self.speed else None

    @property
    def tokens(self) -> int | None:
        """Tokens of training; None if the log has no training statistics."""
        if not self.tokens_per_update:
            return None
        total, before, mean = 0.0, 0, 0.0
        for update, mean in sorted(self.tokens_per_update.items()):
            total += mean * (update - before)
            before = update
        total += mean * max(0, self.updates - before)
        return round(total) if math.isfinite(total) else None

    def _validates(self, split: str, update: float | None) -> bool:
        """Whether the validation of this split is to be read. One of another split than before, at a later update, is
        of a run that was resumed with another ``dataset.valid_subset``: scores begin anew, not to mix two splits."""
        last = max([*self.perplexity, *self.accuracy], default=-1)
        if split != self.split and update is not None and update > last:
            self.split = split
            for values in (self.perplexity, self.accuracy, self.f1):
                values.clear()
        return split == self.split

    def _go_to(self, update: int) -> None:
        if update < self.updates:
            for values in (self.perplexity, self.accuracy, self.f1, self.speed, self.tokens_per_update):
                for late in [key for key in values if key >= update]:
                    del values[late]
        self.updates = update


def read_log(path: Path) -> TrainingLog:
    """Read ``path``; lines that cannot be read, such as a truncated last one, are skipped.

    Raises:
        OSError: the file cannot be read.
    """
    log = TrainingLog()
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("{"):
                with suppress(ValueError):
                    _add(log, parse(line))
    return log


def _add(log: TrainingLog, stats: dict[str, Any]) -> None:
    curves: dict[str, dict[int, float]]
    split = next((key.removesuffix(_UPDATES) for key in stats if key.endswith(_UPDATES)), None)
    if "num_updates" in stats:
        count = stats["num_updates"]
        curves = {"wps": log.speed, "wpb": log.tokens_per_update}
    elif split == "train":  # of an epoch: has the last update; its tokens are used only if no interval was logged
        count = stats["train_num_updates"]
        curves = {} if log.tokens_per_update else {"train_wpb": log.tokens_per_update}
    elif split is not None and log._validates(split, _number(stats[split + _UPDATES])):
        count = stats[split + _UPDATES]
        curves = {f"{split}_ppl": log.perplexity, f"{split}_accuracy": log.accuracy, f"{split}_f1": log.f1}
    else:
        return
    update = _number(count)
    if update is None or not math.isfinite(update):
        return
    log._go_to(int(update))
    for key, curve in curves.items():
        value = _number(stats.get(key))
        if value is not None and (math.isfinite(value) or curve is log.perplexity):
            curve[int(update)] = value


def _number(value: Any) -> float | None:
    """fairseq writes numbers as text, "inf" and "nan" among them."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
