"""Checks of options that several benchmarks have, and their lines of progress."""

from __future__ import annotations

import argparse
import sys

from linformer_fairseq.files.errors import UserError


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def check_distinct(args: argparse.Namespace, *names: str) -> None:
    """Check that no option has a value twice.

    Args:
        args: has a list for each option.
        names: of the options, in ``args``.

    Raises:
        UserError: one has.
    """
    for name in names:
        values = getattr(args, name)
        if len(set(values)) < len(values):
            raise UserError(f"--{name.replace('_', '-')} names something twice: {' '.join(map(str, values))}")


def check_positions(positions: int | None, lengths: list[int]) -> None:
    """Check that no input is longer than the models' n, if that is given.

    Raises:
        UserError: one is.
    """
    if positions is not None and positions < max(lengths):
        raise UserError(f"--positions is {positions}, but --lengths has {max(lengths)}; expected at least that")


def check_below_n(option: str, k: int, n: int) -> None:
    """Check that k is below n.

    Raises:
        UserError: it is not.
    """
    if k >= n:
        raise UserError(f"{option} {k}: expected k < n, and n is {n} here")
