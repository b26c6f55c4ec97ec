"""The frame of every program: its help, how it reports what a user can fix, and how it ends on Ctrl-C."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from linformer_fairseq.files.errors import UserError


def program_parser(prog: str | None, module: str, text: str | None) -> argparse.ArgumentParser:
    """A parser of the options of a program, whose help shows the module's ``text`` as it stands.

    Args:
        prog: how the program was called, if not by ``python -m MODULE``.
        module: the full name of its module.
        text: what it does.
    """
    return argparse.ArgumentParser(
        prog=prog or f"python -m {module}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_program(main: Callable[[], None]) -> None:
    """Run a program's ``main``; if it fails, end the process with a status the shell can rely on.

    0: done. 1: a :class:`UserError` or an operating system error, told in one line on stderr. 130: Ctrl-C.
    Any other exception is a fault of ours and keeps its traceback.
    """
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        # Leave at once: no traceback, and no waiting for threads of libraries at exit.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("stopped by Ctrl-C", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {name}{error.strerror or error}")
