"""Perplexity of masked language models by the length of their input.

    python -m scripts.reproduce_tools.lengths runs/A/checkpoint_last.pt runs/B/checkpoint_last.pt --out lengths.json

Uses the validation text of each model's pretraining, in blocks of each length instead of n and with fairseq's masks,
to evaluate inputs that are shorter than those of pretraining.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks
from omegaconf import open_dict

from data_prep.support.program import run_program
from linformer_fairseq import models  # noqa: F401  registers them, for fairseq to build the checkpoint's
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.provenance import commit, date, machine, versions
from scripts.quickstart_tools.evaluate import perplexity

REPOSITORY = Path(__file__).parents[2]
LENGTHS = (16, 32, 64, 128, 256, 512)
"""Tokens of a block, <s> included."""
TOKENS = 1 << 16
"""Tokens that are evaluated for each length; 15 % of them are masked."""
_TOKENS_OF_BATCH = 4096


def by_length(checkpoint: Path) -> list[dict[str, Any]]:
    """A row for each length up to the model's n.

    Args:
        checkpoint: of a pretraining, whose data are still in the same place.

    Raises:
        UserError: no such file, or not of a pretraining.
    """
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; expected a checkpoint of a pretraining")
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    cfg = state["cfg"]
    if cfg.task._name != "masked_lm":
        raise UserError(f"{checkpoint}: its task is {cfg.task._name}; expected a checkpoint of a pretraining")
    task = tasks.setup_task(cfg.task)  # has a copy of the config
    model = task.build_model(cfg.model)
    model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    model.float()
    criterion = task.build_criterion(cfg.criterion)
    longest = cfg.task.tokens_per_sample
    rows = []
    for length in (length for length in LENGTHS if length <= longest):
        with open_dict(cfg), open_dict(task.cfg):
            task.cfg.sample_break_mode, task.cfg.tokens_per_sample = "none", length
            cfg.dataset.batch_size = _TOKENS_OF_BATCH // length
        task.load_dataset(cfg.dataset.valid_subset, epoch=1)
        found = perplexity(task, model, criterion, cfg.dataset, batches=TOKENS // _TOKENS_OF_BATCH)
        rows.append(
            {
                "run": checkpoint.parent.name,
                "updates": int(state["optimizer_history"][-1]["num_updates"]),
                "length": length,
                "perplexity": round(found, 1),
            }
        )
    return rows


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.reproduce_tools.lengths",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT", help="of pretrainings")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    args = parser.parse_args(argv)
    rows = []
    for checkpoint in args.checkpoints:
        found = by_length(checkpoint)
        rows += found
        print(f"{checkpoint}: " + ", ".join(f"{row['length']}: {row['perplexity']:,}" for row in found), flush=True)
    about = {"commit": commit(REPOSITORY), "date": date(), "machine": machine(), "versions": versions()}
    write_json(args.out, {"rows": rows, "tokens": TOKENS, "threads": torch.get_num_threads(), **about})


if __name__ == "__main__":
    run_program(main)
