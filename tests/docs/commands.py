"""The commands in a `bash` block, and what the programs themselves say about their options."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence

from tests.conftest import REPOSITORY
from tests.docs.pages import Block

_SEPARATORS = {"|", "||", "&&", ";", "&"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")


def commands_of(block: Block) -> Iterator[list[str]]:
    """The words of each simple command of a block, those inside $(...) too; without assignments before it."""
    text = block.text.replace("\\\n", " ")
    for inner in re.findall(r"\$\(([^()]*)\)", text):
        yield shlex.split(inner)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _SEPARATORS:
                words.append(word)
                continue
            while words and _ASSIGNMENT.fullmatch(words[0]):
                words.pop(0)
            if words:
                yield words
            words = []


@functools.cache
def help_of_main(module: str, *subcommands: str) -> str:
    """What the function ``main`` of a module prints for --help.

    Raises:
        ValueError: there is no such module or subcommand.
    """
    try:
        main: Callable[[list[str]], object] = importlib.import_module(module).main
    except ModuleNotFoundError as error:
        raise ValueError(f"no module {error.name}") from None
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main([*subcommands, "--help"])
            status: object = 0
        except SystemExit as end:
            status = end.code
    if status:
        raise ValueError(err.getvalue().strip().splitlines()[-1])
    return out.getvalue()


@functools.cache
def help_of_script(path: str) -> str:
    """What a shell script prints for --help.

    Raises:
        ValueError: there is no such script.
    """
    if not (REPOSITORY / path).is_file():
        raise ValueError(f"no file {path}")
    done = subprocess.run(["bash", REPOSITORY / path, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def check_options(text: str, words: Sequence[str]) -> None:
    """Refuse options, and values of those with choices, that a help text does not have.

    Raises:
        ValueError: such an option or value; it is named.
    """
    for number, word in enumerate(words):
        if word == "--":
            return
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"--?[a-z][\w-]*", name):
            continue
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
            raise ValueError(f"no option {name}")
        choices = re.search(rf"(?<![\w-]){re.escape(name)} \{{([^}}]*)\}}", text)
        value = value if equals else next(iter(words[number + 1 :]), "")
        if choices and value not in choices[1].split(","):
            raise ValueError(f"{name} {value}: expected one of {choices[1]}")
