"""The frame of every program: its help, how it reports what a user can mend, and how it ends on Ctrl-C."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from data_prep.support.errors import DataError


def program_parser(name: str, text: str | None) -> argparse.ArgumentParser:
    """A parser of the options of ``python -m data_prep.NAME``, whose help shows the module's ``text`` as it stands."""
    return argparse.ArgumentParser(
        prog=f"python -m data_prep.{name}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run_program(main: Callable[[list[str] | None], None]) -> None:
    """Run a program's ``main`` and end the process with a status the shell can rely on.

    0: done. 1: a :class:`DataError` or an operating system error, told in one line on stderr. 130: Ctrl-C.
    Any other exception is a fault of ours and keeps its traceback.
    """
    try:
        main(None)
    except DataError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        # Leave at once: no traceback, and no waiting for threads of libraries at exit.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("stopped by Ctrl-C", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {name}{error.strerror or error}")
