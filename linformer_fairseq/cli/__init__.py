"""The console command `linformer`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `linformer` with `argv` (default: the process's arguments); returns the exit status.

    0: success; 1: an error that was printed; 2: wrong usage; 130: Ctrl-C; 143: SIGTERM. Training commands have further
    statuses.
    """
    if sys.stderr is None:  # the caller closed it: print would write errors to stdout
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:  # imported here, so that Ctrl-C in the first moments ends it as at any other
        status: int = importlib.import_module(f"{__name__}.program").run(argv)
    except KeyboardInterrupt:
        return 130
    return status
