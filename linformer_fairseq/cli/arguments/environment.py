"""The commands that say what is installed, and where; they have no options."""

from __future__ import annotations

import argparse


def doctor(parser: argparse.ArgumentParser) -> None:
    """Print the versions of the packages that Linformer uses, and problems with them.

    The exit status is 1 if a required package is missing or does not work; warnings and missing optional packages do
    not count.
    """


def user_dir(parser: argparse.ArgumentParser) -> None:
    """Print the folder for --user-dir: `fairseq-train DATA --user-dir "$(linformer user-dir)" ...`."""
