"""What the console command `linformer` does: it reads its arguments, and runs a command.

`commands` lists the commands, and `arguments` declares the options of each. The module that implements a command is
imported only when the command runs, so `--help` needs neither torch nor fairseq.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from linformer_fairseq.cli.arguments.prediction import STDIN
from linformer_fairseq.cli.commands import COMMANDS
from linformer_fairseq.files.exit_status import exit_status
from linformer_fairseq.files.help_format import HelpFormatter
from linformer_fairseq.files.memory import enough_memory

_LESS_MEMORY = "ask for less at a time (smaller batches, shorter inputs), or end other programs"

DISTRIBUTION = "linformer-fairseq"


def version() -> str:
    """The installed version, or "(not installed)" when run from a source tree."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


class _Parser(argparse.ArgumentParser):
    """Refuses what it does not know with its own usage; argparse leaves that to the parser above all subparsers."""

    def parse_known_args(  # type: ignore[override]  # without the overloads for other kinds of namespaces
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given, more = super().parse_known_args(args, namespace)
        if unknown := _take_words(given, more):
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return given, []


def _take_words(given: argparse.Namespace, more: list[str]) -> list[str]:
    """Add Hydra's overrides, or the input of a prediction, that came after an option; returns what is left of ``more``.

    argparse takes only the first group of such words, and the default if there is none in it.
    """
    words = [word for word in more if word == "-" or not word.startswith("-")]
    if getattr(given, "takes_more", None) == "overrides":
        given.overrides += words
    elif getattr(given, "takes_more", None) == "input" and len(words) == 1 and given.input == STDIN:
        given.input = Path(words[0])
    else:
        return more
    return [word for word in more if word not in words]


def build_parser() -> argparse.ArgumentParser:
    """The argument parser, with a subparser for each entry of `COMMANDS`."""
    parser = _Parser(
        prog="linformer",
        description="Linformer models with fairseq: data, training, evaluation, results, benchmarks.",
        epilog='fairseq\'s own commands can train them, too: fairseq-train --user-dir "$(linformer user-dir)" ... '
        "`linformer COMMAND --help` describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"linformer {version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=inspect.getdoc(command.declare))
        subparser.formatter_class = HelpFormatter
        command.declare(subparser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run `linformer`; see `linformer_fairseq.cli.main`."""
    parser = build_parser()
    given = parser.parse_args(argv)
    if "" in (sys.argv[1:] if argv is None else argv):  # as a path, it would be the current folder
        parser.error("an argument is empty; expected a value (is a variable of the shell not set?)")
    command = COMMANDS[given.command]

    def work() -> int:
        with enough_memory(_LESS_MEMORY), _exit_on_signals() if command.cleans_up else nullcontext():
            return _load(command.module)(given)

    try:
        return exit_status(work, f"linformer {given.command}: error: ")
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "linformer_fairseq"):
            raise
        package = {"google": "protobuf", "markdown_it": "markdown-it-py", "yaml": "pyyaml"}.get(package, package)
        found = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        hint = "`linformer doctor` says how to get it"
        print(f"linformer {given.command}: error: {package} {found}; {hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if command.cleans_up:  # the others say what the next run starts from
            print(f"linformer {given.command}: stopped by Ctrl-C; files are as they were", file=sys.stderr)
        return 130


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, which by default end the process at once.

    Another one is ignored while files are put right. It is not if Python has dropped the SystemExit: that of a
    finalizer, such as import has, does not leave it.
    """
    asked = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        error = sys.exception() if asked else None
        # GeneratorExit: a generator that the exit has left puts its files right. Others: errors of a step of that.
        while error is not None and not isinstance(error, SystemExit | GeneratorExit):
            error = error.__context__
        if error is None:
            asked = True
            sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _load(module: str) -> Callable[[argparse.Namespace], int]:
    """The ``run`` function of a command's module."""
    found: Callable[[argparse.Namespace], int] = importlib.import_module(f"{__package__}.{module}").run
    return found
