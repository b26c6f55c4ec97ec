"""Efficiency, as the paper measures it: python -m benchmarks PROGRAM (--help for each)."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from pathlib import Path

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.efficiency.errors import BenchmarkError

PROGRAMS = {
    "inference": "time and memory of a forward pass (Table 3, Figure 2)",
    "training": "speed of training, bare and through fairseq",
    "ablation": "one layer with one thing done differently at a time",
    "profile": "where the time of one layer goes",
    "optimizer": "a step of fairseq's Adam and of fused_adamw",
    "padding": "how much of a finetuning's batches is padding",
    "selfcheck": "whether the models are set up as their own users do",
    "report": "tables and plots of what was measured",
    "readme": "put the tables into the repository's pages",
}


def main(argv: list[str] | None = None) -> int:
    """The program; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
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
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; --resume goes on", file=sys.stderr)
        return 130
    finally:
        logging.disable(silenced)


if __name__ == "__main__":
    sys.exit(main())
