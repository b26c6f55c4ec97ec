"""`linformer pretrain` and `linformer finetune`."""

from __future__ import annotations

import argparse
import os
import sys

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.run_record import COMMANDS
from linformer_fairseq.launch.application import check, launch
from linformer_fairseq.planning import plan, report


def run(arguments: argparse.Namespace) -> int:
    """Start the runs, or print what they would be (--dry-run); returns the exit status."""
    stage = next(stage for stage, command in COMMANDS.items() if command == arguments.command)
    if arguments.config_dir is not None and not (arguments.config_dir / f"{stage}.yaml").is_file():
        raise UserError(f"--config-dir {arguments.config_dir}: no {stage}.yaml there")
    options = (stage, arguments.overrides, arguments.multirun, arguments.config_dir)
    try:
        if not arguments.dry_run:
            return launch(*options)
        configs = [run.config for run in check(*options)]
    except KeyboardInterrupt:
        if "RANK" not in os.environ:  # with several processes, only the launcher prints this
            print(
                "stopped by Ctrl-C; the same command goes on from the last checkpoint, if there is one", file=sys.stderr
            )
        raise
    try:
        _describe(configs)
    except ValueError as error:  # a model that planning does not know
        raise UserError(str(error)) from None
    return 0


def _describe(configs: list[DictConfig]) -> None:
    lines = report(plan(configs[0]))  # first, so that an error in the model is printed alone
    print(OmegaConf.to_yaml(configs[0], resolve=True))
    if len(configs) > 1:
        print(f"# {len(configs)} runs; the config above and the figures below are those of the first")
    for line in lines:
        print(line)
