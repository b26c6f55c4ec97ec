"""Pretrain by a config: masked-language modelling on the folder that scripts/prepare_pretraining.sh made.

  linformer pretrain experiment=linformer_base_n512_k128_layerwise task.data=work/bin run_config=gpu
  linformer pretrain --dry-run model=roberta_base task.tokens_per_sample=1024 task.data=work/bin

`linformer experiments list` names the experiments. run_config is cpu, gpu (one), node (all of this machine, through
torchrun), srun (inside a SLURM job) or slurm (submits one). Paths are relative to where you stand. The run folder is
runs/NAME; the same command goes on where a run stopped.

Exit status: 0 finished, 1 failed, 85 stopped by a signal with a checkpoint saved, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse

from linformer_fairseq.cli import training_command
from linformer_fairseq.cli.training_command import add_arguments

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    return training_command.run("pretraining", arguments)
