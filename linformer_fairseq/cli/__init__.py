"""The console command `linformer`, one module per subcommand.

A subcommand is a module with `add_arguments(parser)` and `run(arguments) -> exit status`, and a line in COMMANDS.
Its module-level imports must be light (torch and the like belong inside `run`), because every module in the table
is imported for `linformer --help`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import signal
import sys
from collections.abc import Sequence

from linformer_fairseq.cli import (
    benchmark,
    checkpoint,
    data,
    doctor,
    evaluate,
    experiments,
    finetune,
    pretrain,
    results,
)
from linformer_fairseq.cli.command import Command, CommandError

COMMANDS: dict[str, Command] = {
    "benchmark": Command(benchmark, "time and memory against RoBERTa and others (Table 3, Figure 2), and of training"),
    "checkpoint": Command(checkpoint, "check the checkpoints of a run (`verify`), or make one to hand on (`release`)"),
    "data": Command(data, "look into binarised data and check it (`linformer data inspect DIR`)"),
    "doctor": Command(doctor, "print versions and say what is missing or wrong in this environment"),
    "evaluate": Command(evaluate, "score a finetuned checkpoint on a prepared task, and write its predictions"),
    "experiments": Command(experiments, "the paper's runs as a table (`linformer experiments list`)"),
    "finetune": Command(finetune, "finetune a pretrained checkpoint on a prepared task, by a config"),
    "pretrain": Command(pretrain, "pretrain by a config: one of the paper's runs, or your own"),
    "results": Command(results, "collect the results of runs; the paper's Table 2 and Figure 3 from them"),
}

DISTRIBUTION = "linformer-fairseq"


def version() -> str:
    """The installed version, or a text that says that the package was not installed (run from a source tree)."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command, with a subparser for each entry of COMMANDS."""
    parser = argparse.ArgumentParser(
        prog="linformer",
        description="Tools beside fairseq's own commands for Linformer models.",
        epilog="Models are trained with fairseq-train --user-dir linformer_fairseq or with fairseq-hydra-train. "
        "`linformer COMMAND --help` describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"linformer {version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=command.module.__doc__)
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
        command.module.add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `linformer` with `argv` (default: the process's arguments); returns the exit status.

    0 is success, 1 a failure that the command reported, 2 wrong usage, 130 an interrupt.
    """
    parser = build_parser()
    arguments, more = parser.parse_known_args(argv)
    # Hydra's overrides may stand on both sides of an option, where argparse takes only the first group
    if getattr(arguments, "takes_more", False):
        arguments.overrides += [word for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    try:
        return COMMANDS[arguments.command].module.run(arguments)
    except CommandError as error:
        print(f"linformer {arguments.command}: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `linformer ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is said at the end of Python
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 130
