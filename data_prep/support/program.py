"""The frame of the programs: help, errors, and Ctrl-C."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from data_prep.support.workers import default_workers
from linformer_fairseq.files.exit_status import exit_status
from linformer_fairseq.files.help_format import HelpFormatter


def program_parser(prog: str | None, module: str, text: str | None) -> argparse.ArgumentParser:
    """An argument parser whose help shows ``text``, with its indented lines as they are.

    Args:
        prog: name of the program in the help; default: ``python -m MODULE``.
        module: full name of the program's module.
        text: description of the program.
    """
    return argparse.ArgumentParser(
        prog=prog or f"python -m {module}",
        description=text,
        formatter_class=HelpFormatter,
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the option of the programs that divide their work."""
    parser.add_argument(
        "--workers",
        type=int,
        default=default_workers(),
        metavar="N",
        help="number of processes (default: one per core, %(default)s)",
    )


def add_errors(parser: argparse._ActionsContainer) -> None:
    """Add the option of the programs that read a user's text to a parser or to a group of one."""
    parser.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="for bytes that are not UTF-8: stop with an error, or replace them by U+FFFD (default: %(default)s)",
    )


def run_program(main: Callable[[], None]) -> None:
    """Run a program's ``main``; if it fails, end the process with the status of `exit_status`, or 130 after Ctrl-C."""
    try:
        status = exit_status(main)
    except KeyboardInterrupt:
        # Exit immediately: no traceback, and no waiting for threads of libraries.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("stopped by Ctrl-C", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    if status:
        sys.exit(status)
