"""What `linformer pretrain` and `linformer finetune` have in common."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linformer_fairseq.cli.command import CommandError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; everything else on the line is an override of the config."""
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="overrides of the config, as Hydra reads them"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check, and print config, size, cost and memory; start nothing"
    )
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="run every combination of values given with commas (lr=1e-5,2e-5)"
    )
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")
    parser.set_defaults(takes_more=True)


def run(stage: str, arguments: argparse.Namespace) -> int:
    """Start the run or runs, or say what they would be; returns the exit status."""
    try:
        import fairseq  # noqa: F401
    except ModuleNotFoundError:
        raise CommandError("fairseq is not installed; `linformer doctor` says how to get it") from None
    if arguments.config_dir is not None and not (arguments.config_dir / f"{stage}.yaml").is_file():
        raise CommandError(f"--config-dir {arguments.config_dir}: no {stage}.yaml there")
    from linformer_fairseq.launch import LaunchError
    from linformer_fairseq.launch.application import check, launch

    options = (stage, arguments.overrides, arguments.multirun, arguments.config_dir)
    try:
        if not arguments.dry_run:
            return launch(*options)
        configs = [run.config for run in check(*options)]
    except LaunchError as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        if "RANK" not in os.environ:  # one process of several says nothing: the one that started them does
            print("stopped by Ctrl-C; the same command goes on from the last checkpoint", file=sys.stderr)
        raise
    try:
        _describe(configs)
    except ValueError as error:  # a model that planning does not know
        raise CommandError(str(error)) from None
    return 0


def _describe(configs: list[DictConfig]) -> None:
    from omegaconf import OmegaConf

    from linformer_fairseq.planning import plan, report

    lines = report(plan(configs[0]))  # before anything is printed: what is wrong with the model is said alone
    print(OmegaConf.to_yaml(configs[0], resolve=True))
    if len(configs) > 1:
        print(f"# {len(configs)} runs; the config above and the figures below are those of the first")
    for line in lines:
        print(line)
