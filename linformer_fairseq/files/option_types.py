"""Types of the options of a command line, for argparse."""

from __future__ import annotations

from argparse import ArgumentTypeError


def count(text: str) -> int:
    """A number of things, at least 1.

    Raises:
        ArgumentTypeError: it is another.
    """
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError(f"{text}: expected a whole number of at least 1")
    return value


def seed(text: str) -> int:
    """A whole number for Python's, numpy's and torch's generators.

    Raises:
        ArgumentTypeError: it is negative, or too large for them.
    """
    if not text.strip().isdecimal() or (value := int(text)) >= 2**32:
        raise ArgumentTypeError(f"{text}: expected a whole number from 0 to {2**32 - 1}")
    return value
