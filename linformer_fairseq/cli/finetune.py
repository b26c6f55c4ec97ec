"""Finetune a pretrained checkpoint on a task that scripts/prepare_task.sh made.

  linformer finetune task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt run_config=gpu
  linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt

What the model is (n, k, sharing, projection, size) is read from the checkpoint. With --multirun the grid of the config
runs: three learning rates with five seeds each. The run folder is runs/NAME/TASK_lrLR_sSEED.

Exit status: 0 finished, 1 failed, 85 stopped by a signal with a checkpoint saved, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse

from linformer_fairseq.cli import training_command
from linformer_fairseq.cli.training_command import add_arguments

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    return training_command.run("finetuning", arguments)
