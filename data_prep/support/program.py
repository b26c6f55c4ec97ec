"""The frame of the programs: help, errors, and Ctrl-C."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

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
