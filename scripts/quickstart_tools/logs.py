"""Reading the log that fairseq writes with ``--log-format json --log-file FILE``.

The file is appended to: after an interrupted run was resumed, updates behind the last checkpoint are there
twice, and fairseq writes each line once more per epoch. The last line of an update counts.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path

from scripts.quickstart_tools.progress import parse


@dataclass(frozen=True)
class TrainingLog:
    """What the figures are made from."""

    perplexity: dict[int, float]
    """Validation perplexity by update (masked LM only)."""
    accuracy: dict[int, float]
    """Validation accuracy in percent by update (classification only)."""
    speed: dict[int, float]
    """Tokens per second of the interval that ends at this update."""

    @property
    def tokens_per_second(self) -> float:
        """Median over the intervals: those that hold a validation or the start are slower."""
        return statistics.median(self.speed.values())


def read_log(path: Path) -> TrainingLog:
    """Read ``path``.

    Raises:
        ValueError: no validation or no training progress in it.
    """
    log = TrainingLog({}, {}, {})
    for line in path.read_text(encoding="utf-8").splitlines():
        stats = parse(line) or {}
        if "valid_num_updates" in stats:
            update = int(float(stats["valid_num_updates"]))
            if "valid_ppl" in stats:
                log.perplexity[update] = float(stats["valid_ppl"])
            if "valid_accuracy" in stats:
                log.accuracy[update] = float(stats["valid_accuracy"])
        elif "num_updates" in stats and "wps" in stats:
            log.speed[int(float(stats["num_updates"]))] = float(stats["wps"])
    if not log.speed or not (log.perplexity or log.accuracy):
        raise ValueError(f"{path}: no training progress or no validation in this log")
    return log
