"""How every program ends: the exit status, and errors in one line instead of a traceback."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable

from linformer_fairseq.files.errors import UserError


def exit_status(work: Callable[[], int | None], start: str = "error: ") -> int:
    """Do the work of a program and return its exit status.

    What is printed never fails at a character that the encoding of standard output lacks: it is printed as its number,
    such as ``\\u2013``.

    Args:
        work: returns an exit status, or None for 0. Its Ctrl-C and its bugs are not caught.
        start: of the line that is printed to standard error for a `UserError` or an error of the operating system.

    Returns:
        The status of ``work``; 1 after an error; 141 if the reader of the output went away, as in ``| head``.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = work() or 0
        if sys.stdout is not None:  # it is None where the caller closed it
            sys.stdout.flush()  # at the exit of Python, its errors could not be treated
        return status
    except UserError as error:
        message = str(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python prints no second error at exit
        return 128 + signal.SIGPIPE
    except OSError as error:
        message = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
    print(f"{start}{message}", file=sys.stderr)
    return 1
