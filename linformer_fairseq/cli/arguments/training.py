"""The options of the commands that train models."""

from __future__ import annotations

import argparse
from pathlib import Path


def experiments(parser: argparse.ArgumentParser) -> None:
    """List the experiments in configs/experiment: the runs of the paper.

    `linformer experiments list` composes each config and prints n, k, sharing, the number of parameters, sequences,
    tokens and operations per update, the total number of tokens, and where the run appears in the paper. `linformer
    pretrain experiment=NAME` starts one; with --dry-run it prints more details.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    action = actions.add_parser(
        "list",
        help="print a table of all experiments",
        description="Print a table of all experiments. Operations are those of matrix products, forward and backward; "
        "parameters are counted with RoBERTa's vocabulary.",
    )
    action.add_argument("--format", choices=("text", "markdown"), default="text", help="default: %(default)s")
    action.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")


def pretrain(parser: argparse.ArgumentParser) -> None:
    """Pretrain a masked language model on a folder made by `linformer data pretraining`.

      linformer pretrain experiment=linformer_base_n512_k128_layerwise task.data=work/bin run_config=gpu
      linformer pretrain --dry-run model=roberta_base task.tokens_per_sample=1024 task.data=work/bin

    `linformer experiments list` lists the experiments. run_config is cpu, gpu (one GPU), node (eight GPUs of this
    machine, with torchrun), srun (inside a SLURM job) or slurm (submits a SLURM job). Paths are relative to the current
    directory. The run folder is runs/NAME; repeating the command resumes a stopped run.

    Exit status: 0 finished, 1 failed, or stopped by a signal with checkpoint.no_save=true or no_last_checkpoints=true,
    2 wrong usage, 85 stopped by a signal after saving a checkpoint, 130 Ctrl-C, 128 + N ended by signal N before the
    first update.
    """
    _training(parser)


def finetune(parser: argparse.ArgumentParser) -> None:
    """Finetune a pretrained checkpoint on a task made by `linformer data task`.

      linformer finetune task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt run_config=gpu
      linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt

    The model (n, k, sharing, projection, size) is read from the checkpoint. --multirun runs the grid of the config:
    three learning rates with five seeds each. The run folder is runs/NAME/TASK_lrLR_sSEED; repeating the command
    resumes a stopped run.

    Exit status: 0 finished, 1 failed, or stopped by a signal with checkpoint.no_save=true or no_last_checkpoints=true,
    2 wrong usage, 85 stopped by a signal after saving a checkpoint, 130 Ctrl-C, 128 + N ended by signal N before the
    first update.
    """
    _training(parser)


def _training(parser: argparse.ArgumentParser) -> None:
    """The options of `pretrain` and `finetune`."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of the config, in Hydra's syntax")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check config and data, print estimates of time and memory; start nothing",
    )
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="run every combination of comma-separated values (common.seed=1,2)",
    )
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")
    parser.set_defaults(takes_more="overrides")
