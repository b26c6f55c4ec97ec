"""The errors of Hydra and omegaconf in one line, which names the override or option and says what to do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from hydra.errors import OverrideParseException
from omegaconf.errors import InterpolationKeyError, InterpolationToMissingValueError, ValidationError

from linformer_fairseq.files.errors import nearest

_OF_ITS_OPTION = (ValidationError, InterpolationKeyError, InterpolationToMissingValueError)
"""Errors whose text does not always have the option."""


def plain(error: BaseException, folder: Path | None = None) -> str:
    """The error in one line: its cause has Hydra's reason, its further lines are the search path.

    Args:
        error: of Hydra or omegaconf.
        folder: that of the configs, for the names of those that exist.
    """
    if isinstance(error, OverrideParseException):
        return unreadable(error.override)
    lines = str(error).split("\n")
    text = lines[0]
    text = re.sub(r"^\w+ (raised )?while resolving interpolation: |^Error merging override \+*", "", text)
    cause = str(error.__cause__ or "").split("\n")[0]
    text = f"{text.removesuffix('.')}: {cause}" if cause and cause not in text else text
    text = re.sub(r"Invalid value assigned: \w+ is not a ListConfig.*", "expected a list, such as [VALUE]", text)
    if isinstance(error, _OF_ITS_OPTION) and error.full_key and error.full_key not in text:
        text = f"{error.full_key}: {text}"
    if folder and (missing := re.search(r"Could not find '(\w+)/([^']*)'", text)):
        group = folder / missing[1]
        there = sorted(str(path.relative_to(group).with_suffix("")) for path in group.rglob("*.yaml"))
        text += nearest(missing[2], there) or f"; there are: {', '.join(there)}"
    return text


def unreadable(word: str) -> str:
    """What is said of an override that Hydra cannot read."""
    key, equals, value = word.partition("=")
    if not equals or not key.strip("+~"):
        return f"{word}: expected KEY=VALUE"
    return (
        f"{word}: not Hydra's syntax, in which a list is [A,B]; a text with such characters needs quotes: "
        f"{in_quotes(key, value)}"
    )


def ambiguous(word: str, is_text: bool) -> str:
    """What is said of an override with several values where one run was asked for.

    Args:
        word: the override.
        is_text: whether its option is text, so that a list is not meant.
    """
    key, _, value = word.partition("=")
    a_list = "" if is_text else f"for a list, write {shlex.quote(f'{key}=[{value}]')}, "
    return (
        f"{word}: several values for one run; {a_list}for one text {in_quotes(key, value)}, and for a run with each of "
        "them add --multirun"
    )


def in_quotes(key: str, value: str) -> str:
    """An override as it is typed in a shell for a value that is all text."""
    return shlex.quote(f"{key}={as_text(value)}")


def as_text(value: str) -> str:
    """A value as Hydra takes it for text, whatever is in it except interpolations."""
    return '"' + re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), value) + '"'
