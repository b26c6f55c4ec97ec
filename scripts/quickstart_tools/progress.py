"""Show fairseq's JSON log lines on stdin as one line of progress that is updated; write all to a file."""

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")


class Pace:
    """The time left, by all updates since the first that was seen.

    fairseq's own rate is that of the last interval, and differs with whether there was a validation in it.

    Args:
        total: number of updates.
        clock: tells the seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def left(self, update: int) -> float | None:
        """Seconds from this update to the last; None for the first one that is seen."""
        now = self._clock()
        if self._first is None:
            self._first = update, now
        first, began = self._first
        return (self._total - update) * (now - began) / (update - first) if update > first else None


def parse(line: str) -> dict[str, Any] | None:
    """The JSON object at the end of a log line, or None where there is none."""
    start = line.find("{")
    if start < 0:
        return None
    try:
        value = json.loads(line[start:])
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def resumed_at(line: str) -> int | None:
    """The update from which a run continues, where a log line says so; None for one that begins."""
    found = _LOADED.search(line)
    return (int(found[1]) or None) if found else None


def describe(stats: dict[str, Any], total: int, pace: Pace) -> str | None:
    """One line for a logged object: training progress or a validation; None for anything else."""
    if "valid_loss" in stats:
        update = int(float(stats["valid_num_updates"]))
        if "valid_accuracy" in stats:
            value = f"accuracy {float(stats['valid_accuracy']):.1f} %"
        else:
            value = f"perplexity {float(stats['valid_ppl']):,.1f}"
        return f"  update {update:>5}/{total}  validation: {value}"
    if "num_updates" not in stats or "ups" not in stats:
        return None
    update = int(float(stats["num_updates"]))
    text = f"  update {update:>5}/{total}  loss {float(stats['loss']):.2f} bits"
    text += f"  {float(stats['wps']):,.0f} tokens/s"
    if (seconds := pace.left(update)) is not None:
        left = round(seconds)
        text += f"  {left // 60}:{left % 60:02d} left"
    return text


def main() -> None:
    """Run the program: copy stdin to ``--log`` and show the progress on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="file for all lines")
    parser.add_argument("--total", type=int, required=True, help="number of updates")
    args = parser.parse_args()
    # A signal is sent to the whole process group: fairseq stops, and this program continues to write its last lines.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    terminal = sys.stdout.isatty()
    moving = False

    def show(text: str, stays: bool) -> None:
        """A line that does not stay is overwritten by the next one, and is for a terminal only."""
        nonlocal moving
        if terminal:
            print("\r\033[K" + text, end="\n" if stays else "", flush=True)
            moving = not stays
        elif stays:
            print(text, flush=True)

    pace = Pace(args.total)
    show("  loading", stays=False)
    with args.log.open("a", encoding="utf-8") as log:
        for line in sys.stdin:
            log.write(line)
            log.flush()
            if resumed := resumed_at(line):
                show(f"  continuing at update {resumed} of {args.total}", stays=True)
            elif (stats := parse(line)) and (text := describe(stats, args.total, pace)):
                show(text, stays="valid_loss" in stats)
    if moving:
        print()


if __name__ == "__main__":
    main()
