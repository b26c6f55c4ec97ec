"""The console command `linformer`.

`arguments` declares the options of each command. The module that implements a command is imported only when the command
runs, so `--help` needs neither torch nor fairseq.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from linformer_fairseq.cli import arguments
from linformer_fairseq.files.errors import UserError


class Command(NamedTuple):
    """An entry of `COMMANDS`."""

    help: str
    """One line, for `linformer --help`."""
    declare: Callable[[argparse.ArgumentParser], None]
    """Adds the options to the command's parser; its docstring is the command's description."""
    module: str
    """In this package: it has ``run(arguments)``, which does the work and returns the exit status."""
    cleans_up: bool = False
    """SIGTERM ends it as Ctrl-C does, so that temporary files are removed. The training commands handle signals
    themselves; the programs of `data` and `benchmark` continue from what an interrupted one left."""


COMMANDS: dict[str, Command] = {
    "analyse": Command(
        "analyse why k can be small: the rank of attention (Figure 1), Theorems 1 and 2", arguments.analyse, "analyse"
    ),
    "benchmark": Command(
        "measure speed and memory of inference (Table 3, Figure 2) and training",
        arguments.benchmark,
        "benchmark",
    ),
    "card": Command(
        "write a model card of what a checkpoint and its run folder say", arguments.card, "card", cleans_up=True
    ),
    "checkpoint": Command(
        "verify the checkpoints of a run, or export a model for sharing (`release`)",
        arguments.checkpoint,
        "checkpoint",
        cleans_up=True,
    ),
    "convert": Command(
        "make a Linformer of a pretrained RoBERTa (fairseq's or Hugging Face's)",
        arguments.convert,
        "convert",
        cleans_up=True,
    ),
    "data": Command("prepare data for pretraining and finetuning, and inspect it", arguments.data, "data"),
    "demo": Command("try a model on a web page: masked words, classes, attention", arguments.demo, "demo"),
    "doctor": Command("print versions, and problems of this environment", arguments.doctor, "doctor"),
    "embed": Command("write vectors of texts", arguments.embed, "embed", cleans_up=True),
    "evaluate": Command(
        "evaluate a finetuned checkpoint on a prepared task, and write its predictions",
        arguments.evaluate,
        "evaluate",
        cleans_up=True,
    ),
    "experiments": Command(
        "list the paper's runs (`linformer experiments list`)", arguments.experiments, "experiments"
    ),
    "export": Command(
        "convert a model for transformers, onnxruntime or torch.export", arguments.export, "export", cleans_up=True
    ),
    "fill-mask": Command("print the most probable tokens for a mask", arguments.fill_mask, "fill_mask", cleans_up=True),
    "finetune": Command("finetune a pretrained checkpoint on a prepared task", arguments.finetune, "training"),
    "import": Command("convert a model of transformers to fairseq", arguments.import_, "export", cleans_up=True),
    "predict": Command("classify texts with a finetuned checkpoint", arguments.predict, "predict", cleans_up=True),
    "pretrain": Command("pretrain a model: one of the paper's runs, or your own", arguments.pretrain, "training"),
    "report": Command(
        "write one HTML page on all results: the paper's beside ours", arguments.report, "report", cleans_up=True
    ),
    "results": Command(
        "collect results of runs, and make the paper's Table 2 and Figure 3", arguments.results, "results"
    ),
    "user-dir": Command("print the folder for fairseq's --user-dir", arguments.user_dir, "user_dir"),
}

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
    elif getattr(given, "takes_more", None) == "input" and len(words) == 1 and given.input == arguments.STDIN:
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
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
        command.declare(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `linformer` with `argv` (default: the process's arguments); returns the exit status.

    0: success; 1: an error that was printed; 2: wrong usage; 130: Ctrl-C; 143: SIGTERM. Training commands have further
    statuses.
    """
    parser = build_parser()
    given = parser.parse_args(argv)
    if "" in (sys.argv[1:] if argv is None else argv):  # as a path, it would be the current folder
        parser.error("an argument is empty; expected a value (is a variable of the shell not set?)")
    command = COMMANDS[given.command]
    try:
        with _exit_on_sigterm() if command.cleans_up else nullcontext():
            return _load(command.module)(given)
    except UserError as error:
        print(f"linformer {given.command}: error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "linformer_fairseq"):
            raise
        hint = "`linformer doctor` says how to get it"
        print(f"linformer {given.command}: error: {package} is not installed; {hint}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `linformer ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python prints no second error at exit
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"linformer {given.command}: error: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, which by default ends the process at once; a second one is ignored."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _load(module: str) -> Callable[[argparse.Namespace], int]:
    """The ``run`` function of a command's module."""
    run: Callable[[argparse.Namespace], int] = importlib.import_module(f"{__name__}.{module}").run
    return run
