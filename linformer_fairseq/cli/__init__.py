"""The console command `linformer`.

What a command takes is declared in `arguments`; the module that does its work is imported when the command is asked
for, here and nowhere else. So `--help` needs neither torch nor fairseq.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from linformer_fairseq.cli import arguments
from linformer_fairseq.files.errors import UserError


class Command(NamedTuple):
    """A line of the table of commands."""

    help: str
    """One line, for `linformer --help`."""
    declare: Callable[[argparse.ArgumentParser], None]
    """Adds the options to the command's parser; its docstring is the command's description."""
    module: str
    """In this package: it has ``run(arguments)``, which does the work and returns the exit status."""


COMMANDS: dict[str, Command] = {
    "benchmark": Command(
        "time and memory against RoBERTa and others (Table 3, Figure 2), and of training",
        arguments.benchmark,
        "benchmark",
    ),
    "checkpoint": Command(
        "check the checkpoints of a run (`verify`), or make one to hand on (`release`)",
        arguments.checkpoint,
        "checkpoint",
    ),
    "data": Command(
        "prepare text for pretraining and tasks for finetuning, and inspect the result", arguments.data, "data"
    ),
    "doctor": Command(
        "print versions and say what is missing or wrong in this environment", arguments.doctor, "doctor"
    ),
    "evaluate": Command(
        "score a finetuned checkpoint on a prepared task, and write its predictions", arguments.evaluate, "evaluate"
    ),
    "experiments": Command(
        "the paper's runs as a table (`linformer experiments list`)", arguments.experiments, "experiments"
    ),
    "finetune": Command(
        "finetune a pretrained checkpoint on a prepared task, by a config", arguments.finetune, "training"
    ),
    "pretrain": Command("pretrain by a config: one of the paper's runs, or your own", arguments.pretrain, "training"),
    "results": Command(
        "collect the results of runs; the paper's Table 2 and Figure 3 from them", arguments.results, "results"
    ),
    "user-dir": Command("print the folder that fairseq's --user-dir takes", arguments.user_dir, "user_dir"),
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
        description="Linformer models with fairseq: data, training, evaluation, results, benchmarks.",
        epilog='fairseq\'s own commands train them, too: fairseq-train --user-dir "$(linformer user-dir)" ... '
        "`linformer COMMAND --help` describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"linformer {version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=inspect.getdoc(command.declare))
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
        command.declare(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `linformer` with `argv` (default: the process's arguments); returns the exit status.

    0 is success, 1 a failure that the command reported, 2 wrong usage, 130 an interrupt.
    """
    parser = build_parser()
    given, more = parser.parse_known_args(argv)
    # Hydra's overrides may stand on both sides of an option, where argparse takes only the first group
    if getattr(given, "takes_more", False):
        given.overrides += [word for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    try:
        return _load(COMMANDS[given.command].module)(given)
    except UserError as error:
        print(f"linformer {given.command}: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `linformer ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is said at the end of Python
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"linformer {given.command}: error: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _load(module: str) -> Callable[[argparse.Namespace], int]:
    """The function that does a command's work.

    Raises:
        UserError: a package that it needs is not installed.
    """
    try:
        return importlib.import_module(f"{__name__}.{module}").run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "linformer_fairseq"):
            raise
        raise UserError(f"{package} is not installed; `linformer doctor` says how to get it") from None
