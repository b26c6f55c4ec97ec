"""The frame of every program: help, error messages, and Ctrl-C."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from linformer_fairseq.files.errors import UserError


def program_parser(prog: str | None, module: str, text: str | None) -> argparse.ArgumentParser:
    """An argument parser whose help shows ``text`` without reformatting it.

    Args:
        prog: name of the program in the help; default: ``python -m MODULE``.
        module: full name of the program's module.
        text: description of the program.
    """
    return argparse.ArgumentParser(
        prog=prog or f"python -m {module}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_program(main: Callable[[], None]) -> None:
    """Run a program's ``main``; if it fails, end the process with an exit status.

    0: success. 1: a :class:`UserError` or an operating system error, printed in one line to stderr. 130: Ctrl-C. 141:
    the reader of the output went away, as in ``| head``. Any other exception is a bug and is not caught.
    """
    try:
        main()
        if sys.stdout is not None:  # it is None where the caller closed it
            sys.stdout.flush()  # at the exit of Python, its errors could not be treated
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        # Exit immediately: no traceback, and no waiting for threads of libraries.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("stopped by Ctrl-C", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    except BrokenPipeError:  # as in linformer_fairseq.cli
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {name}{error.strerror or error}")
