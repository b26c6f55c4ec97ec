"""The errors of Hydra and omegaconf in one line, which names the override or option and says what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationKeyError, InterpolationToMissingValueError, ValidationError

from linformer_fairseq.files.errors import nearest
from linformer_fairseq.launch.schema import LaunchConfig

_OF_ITS_OPTION = (ValidationError, InterpolationKeyError, InterpolationToMissingValueError)
"""Errors whose text does not always have the option."""
_IN_A_FILE = re.compile(r"In '(.*)': \w+ raised while composing config:")
_INSTEAD = {
    "model": "; a finetuning has the checkpoint's model, of which an option is model.KEY=VALUE",
    "data": "; the data folder is task.data=DIR",
    "task": "; tasks are for linformer finetune",
}
"""What is said of a group that only the other command chooses from."""
_NO_LIST = re.compile(r"Invalid value assigned: \w+ is not a ListConfig.*")


def plain(error: BaseException, folder: Path | None = None) -> str:
    """The error in one line: its cause has Hydra's reason, its further lines are the search path.

    Args:
        error: of Hydra or omegaconf.
        folder: that of the configs, for the names of those that exist.
    """
    if isinstance(error, OverrideParseException):
        return unreadable(error.override)
    lines = str(error).split("\n")
    if (file := _IN_A_FILE.fullmatch(lines[0])) and len(lines) > 1:
        return f"{file[1]}.yaml: {_of_an_option(lines[1:])}"
    text = lines[0]
    text = re.sub(r"^\w+ (raised )?while resolving interpolation: |^Error merging override \+*", "", text)
    cause = str(error.__cause__ or "").split("\n")[0]
    text = f"{text.removesuffix('.')}: {cause}" if cause and cause not in text else text
    text = _NO_LIST.sub("expected a list, such as [VALUE]", text)
    if isinstance(error, _OF_ITS_OPTION) and error.full_key and error.full_key not in text:
        text = f"{error.full_key}: {text}"
    if other := re.match(r"Could not override '(\w+)'\.", text):
        return f"{other[1]}: this command chooses no config of that group{_INSTEAD.get(other[1], '')}"
    if needed := re.match(r"You must specify '(\w+)'", text):
        there = f"; there are: {', '.join(_configs(folder / needed[1]))}" if folder else ""
        return f"{needed[1]}: not given; use {needed[1]}=NAME{there}"
    if folder and (missing := re.search(r"Could not find '(\w+)/([^']*)'", text)):
        names = _configs(folder / missing[1])
        text += nearest(missing[2], names) or (
            f"; there are: {', '.join(names)}" if names else "; there is no such group"
        )
    return text


def _configs(group: Path) -> list[str]:
    """The names of the configs of a group."""
    return sorted(str(path.relative_to(group).with_suffix("")) for path in group.rglob("*.yaml"))


def _of_an_option(lines: Sequence[str]) -> str:
    """What Hydra says of an option in a file, in one line: its reason is on the first, its name on a later one."""
    name = next((line.split(": ", 1)[1] for line in lines if line.strip().startswith("full_key: ")), "")
    reason = _NO_LIST.sub("expected a list, such as [VALUE]", lines[0])
    if re.match("Key '.*' not in '.*'", reason):
        parent, _, key = name.rpartition(".")
        options = OmegaConf.structured(LaunchConfig)
        siblings = OmegaConf.select(options, parent) if parent else options
        reason = "no such option" + nearest(key, list(siblings or ()))
    return f"{name}: {reason}" if name else reason


def unreadable(word: str) -> str:
    """What is said of an override that Hydra cannot read."""
    key, equals, value = word.partition("=")
    if not equals or not key.strip("+~"):
        return f"{word}: expected KEY=VALUE"
    return (
        f"{word}: not Hydra's syntax, in which a list is [A,B]; a text with such characters needs quotes: "
        f"{in_quotes(key, value)}"
    )


def ambiguous(word: str, is_text: bool, is_choice: bool) -> str:
    """What is said of an override with several values where one run was asked for.

    Args:
        word: the override.
        is_text: whether its option is text, so that a list is not meant.
        is_choice: whether it chooses a config of a group, of which a run has one.
    """
    if is_choice:
        return f"{word}: several configs for one run; choose one, or for a run with each of them add --multirun"
    key, _, value = word.partition("=")
    a_list = "" if is_text else f"for a list, write {shlex.quote(f'{key}=[{value}]')}, "
    return (
        f"{word}: several values for one run; {a_list}for one text {in_quotes(key, value)}, and for a run with each of "
        "them add --multirun"
    )


def in_quotes(key: str, value: str) -> str:
    """An override as it is typed in a shell for a value that is all text."""
    return shlex.quote(f"{key}={as_text(value)}")


def with_path(key: str, path: Path) -> str:
    """An override for a path; Hydra reads only some characters without quotation marks."""
    is_plain = re.fullmatch(r"[\w./-]+", str(path), re.ASCII)
    return f"{key}={path}" if is_plain else f"{key}={as_text(str(path))}"


def as_text(value: str) -> str:
    """A value as Hydra takes it for text, whatever is in it except interpolations."""
    return '"' + re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), value) + '"'
