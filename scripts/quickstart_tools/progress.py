"""Show fairseq's JSON log lines on stdin as one line of progress that is updated; write all to a file."""

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any


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


def describe(stats: dict[str, Any], total: int) -> str | None:
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
    update, rate = int(float(stats["num_updates"])), float(stats["ups"])
    text = f"  update {update:>5}/{total}  loss {float(stats['loss']):.2f} bits"
    text += f"  {float(stats['wps']):,.0f} tokens/s"
    if rate > 0:
        left = round((total - update) / rate)
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
    with args.log.open("a", encoding="utf-8") as log:
        for line in sys.stdin:
            log.write(line)
            log.flush()
            stats = parse(line)
            text = describe(stats, args.total) if stats else None
            if text is None:
                continue
            is_training = stats is not None and "valid_loss" not in stats
            if terminal:
                # A line of training is overwritten by the next; lines of validation stay.
                print("\r\033[K" + text, end="" if is_training else "\n", flush=True)
                moving = is_training
            elif not is_training:
                print(text, flush=True)
    if moving:
        print()


if __name__ == "__main__":
    main()
