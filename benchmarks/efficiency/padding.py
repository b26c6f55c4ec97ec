"""`linformer benchmark padding`: share of padding in finetuning batches, by length window."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from benchmarks.efficiency.checks import say
from benchmarks.efficiency.machine import provenance
from benchmarks.efficiency.models.registry import check_names
from benchmarks.efficiency.store import Store
from benchmarks.measuring import RESULTS, said
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table


def run(args: argparse.Namespace) -> int:
    """Count the padding of each task; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    check_names(["linformer"])
    for task in args.tasks:
        if not (task / "input0" / "dict.txt").is_file():
            raise UserError(f"{task} has no input0/dict.txt; expected a folder made by `linformer data task`")
    names = [task.name for task in args.tasks]
    if "" in names or len(set(names)) < len(names):
        raise UserError(f"the tasks are called {', '.join(map(repr, names))}; expected folders of different names")
    if min(args.windows) < 0:
        raise UserError(f"--windows has {min(args.windows)}; expected at least 0")
    settings = {"tasks": names, "batch_size": args.batch_size, "windows": args.windows}
    out = args.out or RESULTS / "padding.json"
    store = Store(out, "padding", settings, provenance(torch.device("cpu"), "none"))
    for task in args.tasks:
        for window in args.windows:
            found = counted(task, args.batch_size, window)
            store.add({"task": task.name, "length_window": window, **found})
            say(f"{task.name}, length_window={window}: {100 * found['padding']:.1f} % padding")
    store.write()
    say(f"written to {store.path}")
    return 0


def counted(folder: Path, batch_size: int, window: int) -> dict[str, Any]:
    """Examples and tokens of the train split, and the share of padding in the positions of all its batches."""
    import numpy as np

    from linformer_fairseq.tasks import BucketedSentencePredictionConfig, BucketedSentencePredictionTask

    config = BucketedSentencePredictionConfig(
        data=str(folder), length_window=window, num_classes=2, init_token=0, separator_token=2, seed=1
    )
    task = BucketedSentencePredictionTask.setup_task(config)
    dataset = task.load_dataset("train")
    np.random.seed(1)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
    lengths = np.asarray(dataset.sizes[0])
    positions = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    tokens = sum(int(lengths[batch].sum()) for batch in batches)
    return {
        "padding": 1 - tokens / positions,
        "examples": sum(map(len, batches)),
        "tokens": tokens,
        "vocabulary": len(task.source_dictionary),
    }


def table(result: dict[str, Any]) -> list[str]:
    """A row for each task, a column for each window."""
    settings = result["settings"]
    found = {(cell["task"], cell["length_window"]): cell for cell in result["cells"]}
    rows = []
    for task in settings["tasks"]:
        first = found[task, settings["windows"][0]]
        shares = [f"{100 * found[task, window]['padding']:.1f} %" for window in settings["windows"]]
        rows.append([task, f"{first['examples']:,}", f"{first['vocabulary']:,}", *shares])
    windows = [f"padding, window {window:,}" if window else "padding, no window" for window in settings["windows"]]
    return [
        *markdown_table([["task", "examples", "vocabulary", *windows], *rows]),
        "",
        f"(Batches of {settings['batch_size']}; {said(result['provenance'])})",
    ]
