"""Efficiency, as the paper measures it: `linformer benchmark PROGRAM` (--help for each)."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys

from benchmarks import PROGRAMS
from linformer_fairseq.files.errors import UserError


def main(argv: list[str] | None = None, prog: str = "python -m benchmarks") -> int:
    """The program, which its help calls ``prog``; returns the exit status."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    subparsers = parser.add_subparsers(dest="program", metavar="PROGRAM", required=True)
    modules = {name: importlib.import_module(f"benchmarks.efficiency.{name}") for name in PROGRAMS}
    for name, text in PROGRAMS.items():
        shape = argparse.RawDescriptionHelpFormatter
        subparser = subparsers.add_parser(name, help=text, description=modules[name].__doc__, formatter_class=shape)
        modules[name].add_arguments(subparser)
    args = parser.parse_args(argv)
    silenced = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what others log: fairseq, the compiler, matplotlib
    try:
        return int(modules[args.program].run(args))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; --resume goes on", file=sys.stderr)
        return 130
    finally:
        logging.disable(silenced)


if __name__ == "__main__":
    sys.exit(main())
