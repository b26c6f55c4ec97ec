"""`python -m benchmarks PROGRAM`, which is also `linformer benchmark PROGRAM`.

`arguments` declares the options of each program. The module that implements a program, of the same name in
`efficiency`, is imported only when the program runs, so `--help` does not need torch.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import sys

from benchmarks import PROGRAMS, arguments
from linformer_fairseq.files.exit_status import exit_status
from linformer_fairseq.files.help_format import HelpFormatter


def main(argv: list[str] | None = None, prog: str = "python -m benchmarks") -> int:
    """Run a program, called ``prog`` in its help; returns the exit status."""
    description = "Measure speed and memory, as the paper does."
    parser = argparse.ArgumentParser(prog=prog, description=description)
    subparsers = parser.add_subparsers(dest="program", metavar="PROGRAM", required=True)
    for name, text in PROGRAMS.items():
        declare = getattr(arguments, name)
        subparser = subparsers.add_parser(name, help=text, description=inspect.getdoc(declare))
        subparser.formatter_class = HelpFormatter
        declare(subparser)
    args = parser.parse_args(argv)
    silenced = logging.root.manager.disable
    logging.disable(logging.WARNING)  # messages of other packages: fairseq, the compiler, matplotlib
    try:
        return exit_status(lambda: importlib.import_module(f"benchmarks.efficiency.{args.program}").run(args))
    except KeyboardInterrupt:
        resumed = "; --resume continues the measurement" if hasattr(args, "resume") else ""
        print(f"interrupted{resumed}", file=sys.stderr)
        return 130
    finally:
        logging.disable(silenced)


if __name__ == "__main__":
    sys.exit(main())
