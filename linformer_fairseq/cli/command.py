"""What a subcommand of `linformer` looks like to the command line."""

from __future__ import annotations

import argparse
from typing import NamedTuple, Protocol


class CommandError(Exception):
    """A failure that the user can do something about; printed without a traceback, exit status 1."""


class CommandModule(Protocol):
    """A module that implements a subcommand; its docstring is the description in the help text."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the subcommand's options on `parser`."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit status."""
        ...


class Command(NamedTuple):
    """One line of the table of subcommands."""

    module: CommandModule
    help: str
    """One line, for `linformer --help`."""
