"""How much of a finetuning's batches is padding, by length window; fairseq's own batches are those of window 0.

    python benchmarks/padding.py work/sst2 [--batch-size 32] [--windows 0 2048]

TASK is a folder that scripts/prepare_task.sh made. Batches are cut as the first epoch of training has them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)


def share(folder: Path, batch_size: int, window: int) -> float:
    """Of the positions of all batches of the train split, those that are padding."""
    import numpy as np

    from linformer_fairseq.tasks import BucketedSentencePredictionConfig, BucketedSentencePredictionTask

    config = BucketedSentencePredictionConfig(
        data=str(folder), length_window=window, num_classes=2, init_token=0, separator_token=2, seed=1
    )
    dataset = BucketedSentencePredictionTask.setup_task(config).load_dataset("train")
    np.random.seed(1)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
    lengths = np.asarray(dataset.sizes[0])
    positions = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    return 1 - float(sum(lengths[batch].sum() for batch in batches)) / positions


def main() -> int:
    """The program; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", type=Path, help="folder of a prepared task")
    parser.add_argument("--batch-size", type=int, default=32, help="(%(default)s)")
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 2048], help="(0 2048)")
    args = parser.parse_args()
    if not (args.task / "input0" / "dict.txt").is_file():
        parser.error(f"{args.task} has no input0/dict.txt; expected a folder that scripts/prepare_task.sh made")
    for window in args.windows:
        print(f"length_window={window}: {100 * share(args.task, args.batch_size, window):.1f} % padding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
